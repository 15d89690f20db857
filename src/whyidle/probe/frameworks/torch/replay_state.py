"""Undoes what a repeated forward and backward pass changes in the job: gradients, buffers,
attributes of modules and random states, all of which it finds as they were."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .looks.step_tape import NotReplayableError

MOVING = ("SyncBatchNorm",)
"""modules that exchange with other ranks, which a pass of one rank alone would block"""
SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DataParallel")


def check_modules(modules: list[Any]) -> None:
    """Check that the modules can be called once more by this rank alone.

    Raises:
        NotReplayableError: they cannot.
    """
    for module in modules:
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if kinds.intersection((*MOVING, *SHARDED)):
            raise NotReplayableError(f"{type(module).__name__} needs other ranks or devices")
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None):
            raise NotReplayableError("the model is compiled, and would be compiled once more")


@contextmanager
def restore_job(torch: Any, modules: list[Any]) -> Iterator[None]:
    """Restore gradients, buffers, attributes and random states of the job at the end."""
    gradients = [(p, p.grad) for module in modules for p in module.parameters(recurse=False)]
    buffers = [
        (buffer, buffer.detach().clone())
        for module in modules
        for buffer in module.buffers(recurse=False)
    ]
    attributes = [(module, _attributes_of(module)) for module in modules]
    states = _read_random_states(torch)
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for module, known in attributes:
            _restore_attributes(module, known)
        for buffer, before in buffers:
            buffer.data.copy_(before)  # ``data``: its version stays
        for parameter, gradient in gradients:
            parameter.grad = gradient
        _restore_random_states(torch, states)


HELD = ("_buffers", "_non_persistent_buffers_set")


def _attributes_of(module: Any) -> dict[str, Any]:
    known = dict(vars(module))
    for name in HELD:
        known[name] = known[name].copy()
    return known


def _restore_attributes(module: Any, known: dict[str, Any]) -> None:
    now = vars(module)
    for name in [name for name in now if name not in known]:
        del now[name]
    for name, value in known.items():
        if name in HELD:
            now[name].clear()
            now[name].update(value)
        elif now.get(name) is not value:
            now[name] = value


def _read_random_states(torch: Any) -> tuple[Any, ...]:
    numpy: Any = sys.modules.get("numpy")
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return (
        random.getstate(),
        torch.get_rng_state(),
        numpy.random.get_state() if numpy else None,
        devices,
    )


def _restore_random_states(torch: Any, states: tuple[Any, ...]) -> None:
    python, cpu, legacy, devices = states
    random.setstate(python)
    torch.set_rng_state(cpu)
    if legacy is not None:
        sys.modules["numpy"].random.set_state(legacy)
    if devices is not None:
        torch.cuda.set_rng_state_all(devices)
