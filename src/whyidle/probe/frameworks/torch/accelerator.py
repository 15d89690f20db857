"""Devices that a job trains on, through the module that PyTorch keeps for each.

What is asked of a module is what ``torch.cuda`` offers under the same names: events that can be
timed, the current stream, synchronisation, the allocator's counts. One that lacks any of it is
measured less, never wrongly. None of it runs before the first step: to ask CUDA whether it is
available settles which devices the process may use, and a script may still choose them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.patching import Wrap
from ...core.recorder import PYTHON, RUNTIME, clock_ns
from ...core.span_hooks import record_calls
from ...wire import ProcessFacts

HOST = ("cpu", "meta")
CUDA = "cuda"
READS = ("item", "cpu", "numpy", "tolist", "__bool__", "__float__", "__int__", "__repr__")
"""methods of a tensor that wait for a device"""
WAITED_NS = 20_000
"""a read that returned sooner than this did not wait"""


def device_type(torch: Any, optimizer: Any) -> str:
    """The type of the device that holds the parameters, one that PyTorch has a module for, before
    the CPU. Where nothing is told of parameters: CUDA, if it was used."""
    groups = getattr(optimizer, "param_groups", None) or []
    found = {p.device.type for group in groups for p in group["params"][:1]}
    for each in sorted(found - set(HOST)):
        if device_module(torch, each) is not None:
            return str(each)
    used = not found and torch.cuda.is_initialized() and torch.cuda.is_available()
    return CUDA if used else "cpu"


def device_index(optimizer: Any, kind_: str) -> int | None:
    """The number of the device that holds the parameters, of those of this type."""
    groups = getattr(optimizer, "param_groups", None) or []
    found = [p.device for group in groups for p in group["params"][:1]]
    return next((each.index for each in found if each.type == kind_), None)


def device_module(torch: Any, kind_: str) -> Any:
    """``torch.cuda`` and its like; None where this PyTorch has none, or it finds no device."""
    found = None if kind_ in HOST else getattr(torch, kind_, None)
    available = getattr(found, "is_available", None)
    return found if available is not None and available() else None


def device_name(torch: Any, optimizer: Any) -> str | None:
    """What a device other than CUDA's is called. Of those, sources from outside know the name."""
    kind_ = device_type(torch, optimizer)
    ask = getattr(device_module(torch, kind_), "get_device_name", None) if kind_ != CUDA else None
    return None if ask is None else str(ask())


def why_not_recorded(torch: Any, told: ProcessFacts) -> str | None:
    """Why a burst would not show this device's kernels, and so would show a job of the CPU."""
    kind_ = str(told.get("device"))
    if kind_ in (*HOST, CUDA) or getattr(device_module(torch, kind_), "KERNELS_IN_PROFILES", False):
        return None
    return f"kernels of {kind_} are not in PyTorch's profiles"


class AcceleratorClock:
    """The current stream of one device, as ``DeviceClock`` wants it."""

    def __init__(self, module_: Any, index: int) -> None:
        self.module, self.index = module_, index
        self._capturing = getattr(module_, "is_current_stream_capturing", bool)

    def event(self) -> Any:
        """See ``DeviceClock``."""
        return self.module.Event(enable_timing=True)

    def record(self, event: Any) -> int:
        """See ``DeviceClock``."""
        stream = self.module.current_stream(self.index)
        event.record(stream)
        return int(stream.stream_id)

    def query(self, event: Any) -> bool:
        """See ``DeviceClock``."""
        return bool(event.query())

    def elapsed_ms(self, first: Any, last: Any) -> float:
        """See ``DeviceClock``."""
        return float(first.elapsed_time(last))

    def is_capturing(self) -> bool:
        """See ``DeviceClock``."""
        return bool(self._capturing())


def accelerator_clock(torch: Any, told: ProcessFacts) -> AcceleratorClock | None:
    """The stream of the device that the process told it trains on; None for CUDA, which has a
    class of its own, and for devices without events that can be timed."""
    kind_ = str(told.get("device"))
    found: Any = device_module(torch, kind_) if kind_ != CUDA else None
    if not all(hasattr(found, name) for name in ("Event", "current_stream", "current_device")):
        return None
    index = told.get("device_index")
    return AcceleratorClock(found, found.current_device() if index is None else int(index))


def watch_device(events: Events, torch: Any, kind_: str) -> None:
    """Reads that may wait for this device, its synchronisations, its allocator's emptying."""
    for name in READS:
        if hasattr(torch.Tensor, name):
            reads = _record_read(events, name, kind_)
            events.patch_function(f"Tensor.{name} ({kind_})", torch.Tensor, name, reads)
    if kind_ != CUDA:
        _wrap_calls(events, device_module(torch, kind_), kind_)


def install_synchronization_hooks(events: Events) -> None:
    """The calls of CUDA's that a script may import by their names, before it steps."""
    import torch

    built: bool = torch.version.cuda is not None or torch.version.hip is not None
    if built:
        _wrap_calls(events, torch.cuda, CUDA)
    if hasattr(getattr(torch, "accelerator", None), "empty_cache"):
        emptied = record_calls(
            events,
            wire.CACHE_RELEASE,
            "torch.accelerator: empty_cache",
            PYTHON,
            "accelerator.empty_cache",
        )
        events.patch_function("accelerator.empty_cache", torch.accelerator, "empty_cache", emptied)


def _wrap_calls(events: Events, owner: Any, kind_: str) -> None:
    calls = (
        ("synchronize", wire.SYNCHRONIZE, f"{kind_}DeviceSynchronize", RUNTIME),
        ("empty_cache", wire.CACHE_RELEASE, f"torch.{kind_}: empty_cache", PYTHON),
    )
    for name, role, span, how in calls:
        if hasattr(owner, name):
            timed = record_calls(events, role, span, how, f"{kind_}.{name}")
            events.patch_function(f"{kind_}.{name}", owner, name, timed)


def _record_read(events: Events, name: str, kind: str) -> Wrap:
    """A read of a tensor, recorded where it is on this kind of device and had to be waited for."""
    span = f"{kind}StreamSynchronize (Tensor.{name})"
    where, resides = f"Tensor.{name} ({kind})", f"is_{kind}"
    is_compiling = events.framework.is_tracing

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not getattr(self, resides, False):
                return original(self, *args, **kwargs)
            begin = clock_ns()
            try:
                return original(self, *args, **kwargs)
            finally:
                if clock_ns() - begin > WAITED_NS:
                    events.run_contained(
                        where, events.add_span, wire.SCALAR_READ, span, RUNTIME, begin
                    )

        return wrapper

    return wrap
