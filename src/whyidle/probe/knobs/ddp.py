"""Changes how DistributedDataParallel exchanges gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from . import KnobSession

ARGUMENTS = ("bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view", "static_graph")
HOOK = "ddp.comm_hook"
WARM_UP = 10
"""steps with the usual exchange before one that changes what is learned: DistributedDataParallel
forms its buckets anew after the first"""
POWER_RANK = 2
"""of the matrices that stand for a gradient: PyTorch advises 1 to 4"""
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_")


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change the wrapper's arguments, register its hook, and exchange gradients in the last
    backward pass of each step only."""
    from torch.nn.parallel import DistributedDataParallel as Wrapper

    settings = {knob.partition(".")[2]: value for knob, value in edits.items()}
    named = {name: value for name, value in settings.items() if name in ARGUMENTS}
    if named:
        session.wrap_constructor(Wrapper, lambda original: _wrap_init(session, named, original))
    if (hook := settings.get("comm_hook")) in HOOKS:
        session.replace_function(
            Wrapper, "forward", lambda original: _wrap_hook_registration(session, hook, original)
        )
    elif HOOK in edits:
        session.decline_knobs([HOOK], f"only {', '.join(HOOKS)} are supported")
    if "no_sync" in settings:
        Accumulation(session, int(settings["no_sync"])).apply_to(Wrapper)


def _wrap_init(
    session: KnobSession, named: dict[str, Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    signature = inspect.signature(original)
    knobs = [f"ddp.{name}" for name in named]

    def init(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs).arguments
        except TypeError:  # the script's own mistake, which PyTorch reports better
            return original(self, *args, **kwargs)
        result = original(**{**bound, **named})
        session.record_applied(*knobs)
        return result

    return init


def _compress(name: str) -> tuple[Any, Any]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    return None, getattr(default_hooks, f"{name}_hook")


def _low_rank(_: str) -> tuple[Any, Any]:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    state = power.PowerSGDState(
        process_group=None, matrix_approximation_rank=POWER_RANK, start_powerSGD_iter=WARM_UP
    )
    return state, power.powerSGD_hook


HOOKS = {"bf16_compress": _compress, "fp16_compress": _compress, "powersgd": _low_rank}
"""value -> makes the state and the function that ``register_comm_hook`` takes"""


def _wrap_hook_registration(
    session: KnobSession, hook: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Register the hook at the first forward pass: the script may register its own before, and
    there can be only one."""
    seen: set[int] = set()

    def register(self: Any) -> None:
        if getattr(self, "_comm_hooks", None):
            session.decline_knobs([HOOK], "the script has registered a hook of its own")
            return
        try:
            self.register_comm_hook(*HOOKS[hook](hook))
        except (ImportError, TypeError, RuntimeError) as error:  # no NumPy, or not this backend
            session.decline_knobs([HOOK], f"PyTorch refuses: {error}")
        else:
            session.record_applied(HOOK)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in seen:
            seen.add(id(self))
            session.run_contained([HOOK], register, self)
        return original(self, *args, **kwargs)

    return forward


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
            self.session.record_applied("ddp.no_sync")
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
