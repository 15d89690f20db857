"""Devices that a job trains on, through PyTorch's module for each type of device.

A module is used through the names of ``torch.cuda``: events that can be timed, the current stream,
synchronisation, the allocator's counters. If it lacks some of them, less is measured. Nothing of
this runs before the first step: asking CUDA whether it is available fixes the devices that the
process may use, which the script may still choose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.host_reads import WAITED_NS
from ...core.recorder import PYTHON, RUNTIME, clock_ns
from ...core.span_hooks import record_calls
from ...wire import ProcessFacts

HOST = ("cpu", "meta")
CUDA = "cuda"
READS = ("item", "cpu", "numpy", "tolist", "__bool__", "__float__", "__int__", "__repr__")
"""methods of a tensor that wait for a device"""


def device_type(torch: Any, optimizer: Any) -> str:
    """Return the type of the device that holds the parameters; types with a module in PyTorch
    precede the CPU. Without parameters, as before the first step of a job that accumulates
    gradients: the accelerator that was used."""
    groups = getattr(optimizer, "param_groups", None) or []
    kinds = {p.device.type for group in groups for p in group["params"][:1]}
    for kind in sorted(kinds - set(HOST)):
        if device_module(torch, kind) is not None:
            return str(kind)
    return "cpu" if kinds else _used_device_type(torch)


def _used_device_type(torch: Any) -> str:
    if torch.cuda.is_initialized() and torch.cuda.is_available():
        return CUDA
    current = getattr(getattr(torch, "accelerator", None), "current_accelerator", None)
    device = None if current is None else current()
    if device is None:
        return "cpu"
    used = getattr(device_module(torch, device.type), "is_initialized", bool)
    return str(device.type) if used() else "cpu"


def device_index(optimizer: Any, kind_: str) -> int | None:
    """Return the number of the device of this type that holds the parameters."""
    groups = getattr(optimizer, "param_groups", None) or []
    devices = [p.device for group in groups for p in group["params"][:1]]
    return next((device.index for device in devices if device.type == kind_), None)


def free_memory(torch: Any, kind: str) -> int:
    """Return the bytes that this process may still take on a kind of device."""
    module = device_module(torch, kind)
    if kind != "cpu" and hasattr(module, "mem_get_info"):
        kept = module.memory_reserved() - module.memory_allocated()
        return int(module.mem_get_info()[0]) + int(kept)
    from ...knobs._free_memory import free_bytes

    return free_bytes()


def device_module(torch: Any, kind_: str) -> Any:
    """Return ``torch.cuda`` or its like; None if it does not exist or finds no device."""
    module = None if kind_ in HOST else getattr(torch, kind_, None)
    available = getattr(module, "is_available", None)
    return module if available is not None and available() else None


def device_name(torch: Any, optimizer: Any) -> str | None:
    """Return the name of a device other than CUDA's, whose name telemetry provides."""
    kind_ = device_type(torch, optimizer)
    ask = getattr(device_module(torch, kind_), "get_device_name", None) if kind_ != CUDA else None
    return None if ask is None else str(ask())


def why_not_recorded(torch: Any, facts: ProcessFacts) -> str | None:
    """Return why a burst would not contain this device's kernels; None if it would."""
    kind_ = str(facts.get("device"))
    if kind_ in (*HOST, CUDA) or getattr(device_module(torch, kind_), "KERNELS_IN_PROFILES", False):
        return None
    return f"kernels of {kind_} are not in PyTorch's profiles"


class AcceleratorClock:
    """The ``DeviceClock`` of one device's current stream."""

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


def accelerator_clock(torch: Any, facts: ProcessFacts) -> AcceleratorClock | None:
    """Return the clock of the process's device; None for CUDA, which has a class of its own, and
    for devices without events that can be timed."""
    kind_ = str(facts.get("device"))
    module: Any = device_module(torch, kind_) if kind_ != CUDA else None
    if not all(hasattr(module, name) for name in ("Event", "current_stream", "current_device")):
        return None
    index = facts.get("device_index")
    return AcceleratorClock(module, module.current_device() if index is None else int(index))


def watch_device(events: Events, torch: Any, kind_: str) -> None:
    """Record reads that wait for this device, its synchronisations and releases of its cache."""
    for name in READS:
        if hasattr(torch.Tensor, name):
            reads = partial(_record_read, events, name, kind_)
            events.patch_function(f"Tensor.{name} ({kind_})", torch.Tensor, name, reads)
    if kind_ != CUDA:
        _wrap_calls(events, device_module(torch, kind_), kind_)


def install_synchronization_hooks(events: Events) -> None:
    """Wrap CUDA functions early, as a script may import them by name before its first step."""
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


def _record_read(
    events: Events, name: str, kind: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrapper that records reads of tensors on this type of device that had to wait."""
    span = f"{kind}StreamSynchronize (Tensor.{name})"
    where, resides = f"Tensor.{name} ({kind})", f"is_{kind}"
    is_compiling = events.framework.is_tracing

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or not getattr(self, resides, False):
            return original(self, *args, **kwargs)
        begin = clock_ns()
        try:
            return original(self, *args, **kwargs)
        finally:
            if clock_ns() - begin > WAITED_NS:
                events.run_contained(where, events.add_span, wire.SCALAR_READ, span, RUNTIME, begin)

    return wrapper
