"""How gradients are exchanged: the settings of DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Hand

ARGUMENTS = (
    "bucket_cap_mb",
    "gradient_as_bucket_view",
    "static_graph",
    "find_unused_parameters",
)


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have the wrapper made with other settings, its hook registered, and gradients exchanged in
    the last backward pass of each step only."""
    from torch.nn.parallel import DistributedDataParallel as Wrapper

    told = {knob.partition(".")[2]: value for knob, value in edits.items()}
    named = {name: value for name, value in told.items() if name in ARGUMENTS}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **{**kwargs, **named})
            if told.get("comm_hook") == "bf16_compress":
                from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

                self.register_comm_hook(None, default_hooks.bf16_compress_hook)
            hand.took(*(knob for knob in edits if knob != "ddp.no_sync"))
            return result

        return init

    hand.replace(Wrapper, "__init__", make)
    if "no_sync" in told:
        _no_sync(hand, Wrapper, int(told["no_sync"]))


def _no_sync(hand: Hand, wrapper: Any, passes: int) -> None:
    """Of the passes of a step only the last one exchanges; the count starts anew at each step."""
    done = 0

    def stepped(_: int) -> None:
        nonlocal done
        done = 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if self.training and self.require_backward_grad_sync:
                done += 1
                if done % passes:
                    hand.took("ddp.no_sync")
                    with self.no_sync():
                        return original(self, *args, **kwargs)
            return original(self, *args, **kwargs)

        return forward

    hand.after_steps(stepped)
    hand.replace(wrapper, "forward", make)
