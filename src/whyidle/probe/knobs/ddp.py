"""Changes how DistributedDataParallel exchanges gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import NO_FORM, KnobSession

NO_SYNC = "ddp.no_sync"
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_")


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Exchange gradients in the last backward pass of each step only."""
    from torch.nn.parallel import DistributedDataParallel as Wrapper

    session.decline_knobs([knob for knob in edits if knob != NO_SYNC], NO_FORM)
    if NO_SYNC in edits:
        Accumulation(session, int(edits[NO_SYNC])).apply_to(Wrapper)


class Accumulation:
    """Exchanges gradients in the last backward pass of each step only. If a step comes sooner (at
    the end of an epoch, for example), gradients are averaged before they are clipped, unscaled or
    used by the optimizer."""

    def __init__(self, session: KnobSession, passes: int) -> None:
        self.session = session
        self.passes = passes
        self.done = 0
        self.local: dict[int, Any] = {}
        """wrappers whose last pass had no exchange"""

    def apply_to(self, wrapper: Any) -> None:
        """Count the forward passes of this class."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self.session.after_steps(self._after_step)
        before = register_optimizer_step_pre_hook(lambda *_: self.exchange_gradients())
        self.session.undo.append(before.remove)
        self.session.replace_function(wrapper, "forward", self._wrap_forward)
        for owner, name in _gradient_readers():
            self.session.replace_function(owner, name, self._wrap_reader)

    def exchange_gradients(self) -> None:
        """Average gradients that were not exchanged. Faults are raised, as ranks would diverge."""
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
            self.session.record_applied(NO_SYNC)
            with model.no_sync():
                return original(model, *args, **kwargs)

        return forward

    def _wrap_reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def use(*args: Any, **kwargs: Any) -> Any:
            self.exchange_gradients()
            return original(*args, **kwargs)

        return use


def _gradient_readers() -> Iterator[tuple[Any, str]]:
    """The functions that read gradients before the optimizer does."""
    import torch
    from torch.nn.utils import clip_grad

    for owner in (torch.nn.utils, clip_grad):  # scripts and libraries take them from either
        for name in CLIPPING:
            if hasattr(owner, name):  # the last two since PyTorch 2.6
                yield owner, name
    scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
    yield scaler, "unscale_"


def _average_gradients(wrapper: Any) -> None:
    """Average gradients as the exchange would have, in one call per dtype and device. All ranks
    come here in the same step, since all run the same passes."""
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
