"""How gradients are exchanged: the settings of DistributedDataParallel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from . import KnobSession

ARGUMENTS = ("bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view", "static_graph")
HOOK = "ddp.comm_hook"
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_")


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Have the wrapper made with other settings, its hook registered, and gradients exchanged in
    the last backward pass of each step only."""
    from torch.nn.parallel import DistributedDataParallel as Wrapper

    told = {knob.partition(".")[2]: value for knob, value in edits.items()}
    named = {name: value for name, value in told.items() if name in ARGUMENTS}
    if named:
        hand.replace_making(Wrapper, lambda original: _wrap_init(hand, named, original))
    if told.get("comm_hook") == "bf16_compress":
        hand.replace_function(
            Wrapper, "forward", lambda original: _wrap_hook_registration(hand, original)
        )
    elif HOOK in edits:
        hand.decline_knobs([HOOK], "only bf16_compress is known")
    if "no_sync" in told:
        Accumulation(hand, int(told["no_sync"])).apply_to(Wrapper)


def _wrap_init(
    hand: KnobSession, named: dict[str, Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    signature = inspect.signature(original)
    knobs = [f"ddp.{name}" for name in named]

    def init(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs).arguments
        except TypeError:  # the script's own mistake, which PyTorch tells better
            return original(self, *args, **kwargs)
        result = original(**{**bound, **named})
        hand.record_applied(*knobs)
        return result

    return init


def _wrap_hook_registration(hand: KnobSession, original: Callable[..., Any]) -> Callable[..., Any]:
    """Registered as late as can be: the script may bring a hook of its own, and there is one."""
    seen: set[int] = set()

    def register(self: Any) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        if getattr(self, "_comm_hooks", None):
            hand.decline_knobs([HOOK], "the script has registered a hook of its own")
            return
        try:
            self.register_comm_hook(None, default_hooks.bf16_compress_hook)
        except (TypeError, RuntimeError) as error:  # not with this backend
            hand.decline_knobs([HOOK], f"PyTorch refuses: {error}")
        else:
            hand.record_applied(HOOK)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in seen:
            seen.add(id(self))
            hand.run_contained([HOOK], register, self)
        return original(self, *args, **kwargs)

    return forward


class Accumulation:
    """Of the passes of a step only the last one exchanges; the count starts anew at each step.
    Where a step comes sooner (the rest of an epoch, say), gradients are averaged before anybody
    uses them: whoever clips or unscales them, or the optimizer."""

    def __init__(self, hand: KnobSession, passes: int) -> None:
        self.hand = hand
        self.passes = passes
        self.done = 0
        self.local: dict[int, Any] = {}
        """wrappers whose last pass was not exchanged"""

    def apply_to(self, wrapper: Any) -> None:
        """Count the passes of this class."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self.hand.after_steps(self._after_step)
        before = register_optimizer_step_pre_hook(lambda *_: self.exchange_gradients())
        self.hand.undo.append(before.remove)
        self.hand.replace_function(wrapper, "forward", self._wrap_forward)
        for owner, name in _gradient_readers():
            self.hand.replace_function(owner, name, self._wrap_reader)

    def exchange_gradients(self) -> None:
        """Average what was not. A fault here is no fault of ours to hide: ranks would part."""
        while self.local:
            _average_gradients(self.local.popitem()[1])

    def _after_step(self, _: int) -> None:
        self.done = 0

    def _wrap_forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
            learns = model.training and torch.is_grad_enabled()
            if not (learns and model.require_backward_grad_sync):
                return original(model, *args, **kwargs)
            self.done += 1
            if self.done % self.passes == 0:
                self.local.pop(id(model), None)
                return original(model, *args, **kwargs)
            self.local[id(model)] = model
            self.hand.record_applied("ddp.no_sync")
            with model.no_sync():
                return original(model, *args, **kwargs)

        return forward

    def _wrap_reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def use(*args: Any, **kwargs: Any) -> Any:
            self.exchange_gradients()
            return original(*args, **kwargs)

        return use


def _gradient_readers() -> Iterator[tuple[Any, str]]:
    """What reads gradients before the optimizer does."""
    import torch
    from torch.nn.utils import clip_grad

    for owner in (torch.nn.utils, clip_grad):  # scripts and libraries take them from either
        for name in CLIPPING:
            if hasattr(owner, name):  # the last two since PyTorch 2.6
                yield owner, name
    scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
    yield scaler, "unscale_"


def _average_gradients(wrapper: Any) -> None:
    """What the exchange would have made of the gradients, in one call per kind of number. All
    ranks come here in the same step, since all make the same passes."""
    import torch
    import torch.distributed as dist

    with torch.no_grad():
        held = [p for p in wrapper.module.parameters() if p.requires_grad]
        for kind in sorted({(str(p.dtype), str(p.device)) for p in held}):
            alike = [p for p in held if (str(p.dtype), str(p.device)) == kind]
            flat = torch.cat(
                [(p.new_zeros(p.shape) if p.grad is None else p.grad).reshape(-1) for p in alike]
            )
            dist.all_reduce(flat, group=wrapper.process_group)
            flat /= dist.get_world_size(wrapper.process_group)
            for p, part in zip(alike, torch.split(flat, [p.numel() for p in alike]), strict=True):
                if p.grad is not None:
                    p.grad.copy_(part.view_as(p))
