"""Computes the activations of chosen modules again in the backward pass, with the same numbers.

``forward`` is replaced on the modules' classes, for the chosen instances only: on an instance it
would be copied by ``copy.deepcopy``, and every copy, such as a running average, would compute with
the weights of the original. The statistics of batch norm move once, as copies of its buffers take
the place of its own while a module is computed again. Modules whose other buffers or attributes
move are left alone.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import DeclinedError, KnobSession

KNOB = "model.recompute"
ALONE = ("FullyShardedDataParallel", "FSDPModule", "SyncBatchNorm", "ScriptModule")
"""classes whose calls do more than to compute: they exchange, or are compiled"""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def recompute_modules(
    model: Any,
    names: list[str],
    dropped: Callable[[Any, str], None] = lambda *_: None,
) -> list[Callable[[], None]]:
    """Recompute the modules of these names; return what undoes it. ``dropped`` is called with a
    module that is left alone after its first call, and why.

    Raises:
        DeclinedError: a module does not exist or cannot be recomputed.
    """
    parts = dict(model.named_modules())
    if missing := [name for name in names if name not in parts]:
        raise DeclinedError(f"the model has no module {missing[0]!r}")
    chosen: weakref.WeakSet[Any] = weakref.WeakSet()
    for name in names:
        _check_module(name, parts[name])
        chosen.add(parts[name])
    checked: weakref.WeakSet[Any] = weakref.WeakSet()
    kinds = {type(module) for module in chosen}
    return [_replace_forward(kind, chosen, checked, dropped) for kind in kinds]


def _check_module(name: str, module: Any) -> None:
    for part in module.modules():
        kinds = {kind.__name__ for kind in type(part).__mro__}
        if own := kinds.intersection(ALONE):
            raise DeclinedError(f"{name} contains {own.pop()}, whose calls cannot be repeated")
        if part is not module and any(getattr(part, hooks, None) for hooks in HOOKS):
            raise DeclinedError(f"hooks of {type(part).__name__} in {name} would be called twice")
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None:
            raise DeclinedError(f"{name} is compiled")


def _replace_forward(
    kind: Any, chosen: Any, checked: Any, dropped: Callable[[Any, str], None]
) -> Callable[[], None]:
    """Replace ``forward`` of a class; return what restores it."""
    import torch
    from torch.utils.checkpoint import checkpoint

    original, own = kind.forward, "forward" in vars(kind)

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or self not in chosen:
            return original(self, *args, **kwargs)
        again: Any = _with_copied_statistics(self)
        moved: list[str] = []
        first = self not in checked
        if first:
            checked.add(self)
            state = _read_state(self)
            again = _with_state(state)
        result = checkpoint(
            functools.partial(original, self),
            *args,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), again),
            **kwargs,
        )
        if first and (moved := _find_moved(state)):
            chosen.discard(self)
            dropped(self, moved[0])
        return result

    kind.forward = forward

    def undo() -> None:
        if vars(kind).get("forward") is forward:
            if own:
                kind.forward = original
            else:
                del kind.forward

    return undo


State = list[tuple[Any, dict[str, Any], dict[str, tuple[Any, Any, tuple[int, int]]]]]
"""module, its attributes, and its buffers with a copy and the version of each"""


def _read_state(module: Any) -> State:
    """What the modules hold before their first call."""
    return [
        (
            part,
            dict(vars(part)),
            {
                name: (buffer, None if buffer is None else buffer.detach().clone(), version)
                for name, buffer in part._buffers.items()
                for version in [_version_of(buffer)]
            },
        )
        for part in module.modules()
    ]


def _find_moved(state: State) -> list[str]:
    """What the first call has changed, statistics of batch norm left out."""
    moved: list[str] = []
    for part, attributes, buffers in state:
        kind, now = type(part).__name__, vars(part)
        moved += [
            f"{kind} changes its attribute {name!r} in each call"
            for name in now
            if name not in attributes or now[name] is not attributes[name]
        ]
        if not _has_statistics(part):
            moved += [
                f"{kind} changes its buffer {name!r} in each call"
                for name, buffer in part._buffers.items()
                if name not in buffers or _version_of(buffer) != buffers[name][2]
            ]
    return moved


@contextlib.contextmanager
def _with_state(state: State) -> Iterator[None]:
    """Repeat the first call with what the modules held before it, and put back what they hold now:
    nobody knows yet what moves."""
    now = [(part, dict(vars(part)), dict(part._buffers)) for part, _, _ in state]
    for part, attributes, buffers in state:
        _set_attributes(part, attributes)
        part._buffers.update({name: twin for name, (_, twin, _) in buffers.items()})
    try:
        yield
    finally:
        for part, attributes, held in now:
            _set_attributes(part, attributes)
            part._buffers.clear()
            part._buffers.update(held)


def _set_attributes(module: Any, attributes: dict[str, Any]) -> None:
    held = vars(module)
    for name in [name for name in held if name not in attributes]:
        del held[name]
    held.update(attributes)


def _version_of(buffer: Any) -> tuple[int, int]:
    return id(buffer), 0 if buffer is None or buffer.is_inference() else buffer._version


def _has_statistics(module: Any) -> bool:
    from torch.nn.modules.batchnorm import _BatchNorm

    return isinstance(module, _BatchNorm)


@contextlib.contextmanager
def _with_copied_statistics(module: Any) -> Iterator[None]:
    """Put copies in place of the statistics of batch norm, and the originals back."""
    held = [
        (part, name, buffer)
        for part in module.modules()
        if _has_statistics(part)
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    for part, name, buffer in held:
        part._buffers[name] = buffer.detach().clone()
    try:
        yield
    finally:
        for part, name, buffer in held:
            part._buffers[name] = buffer


def recompute_chosen(session: KnobSession, names: str, wrap_outermost: Callable[..., None]) -> None:
    """Recompute the named modules of the model once it is found; ``names`` are separated by
    commas."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    # where the script compiles, PyTorch warns that global hooks may be called twice: harmless
    warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global")
    session.wait_for([KNOB], "no model was called")

    def drop(module: Any, why: str) -> None:
        session.decline_knobs([KNOB], f"{type(module).__name__} is not recomputed: {why}")

    def change(model: Any, call: Any) -> Any:
        if KNOB in session.applied:
            return call
        try:
            session.undo.extend(recompute_modules(model, wanted, drop))
        except DeclinedError as reason:
            session.decline_knobs([KNOB], str(reason))
            return call
        session.record_applied(KNOB)
        return call

    wrap_outermost(session, {KNOB: names}, change)
