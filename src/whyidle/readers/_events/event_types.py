"""Chrome trace events of PyTorch's profiler: the decoded types, and their kinds."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from whyidle.model.event_kinds import Detail, DeviceKind, HostKind

EMPTY = msgspec.Raw(b"")
Number = int | float | str | None
"""numbers in real traces: ``"bytes": "128"`` occurs as well as ``"bytes": 128``"""


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments that we read; the decoder skips all others."""

    correlation: Number = -1
    device: Number = -1
    stream: Number = -1
    size: Number = msgspec.field(default=-1, name="bytes")
    blocks_per_sm: Number = msgspec.field(default=math.nan, name="blocks per SM")
    occupancy: Number = msgspec.field(default=math.nan, name="est. achieved occupancy %")
    dims: msgspec.Raw = msgspec.field(default=EMPTY, name="Input Dims")
    old_dims: msgspec.Raw = msgspec.field(default=EMPTY, name="Input dims")
    types: msgspec.Raw = msgspec.field(default=EMPTY, name="Input type")
    stack: str | None = msgspec.field(default="", name="Call stack")
    collective: str | None = msgspec.field(default="", name="Collective name")
    elements: Number = msgspec.field(default=-1, name="In msg nelems")
    group_size: Number = msgspec.field(default=-1, name="Group size")
    group: str | None = msgspec.field(default="", name="Process Group Name")
    allocated: Number = msgspec.field(default=-1, name="Total Allocated")
    reserved: Number = msgspec.field(default=-1, name="Total Reserved")
    device_type: Number = msgspec.field(default=-1, name="Device Type")
    device_id: Number = msgspec.field(default=-1, name="Device Id")


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """One trace event. ``ts`` and ``dur`` are microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = -1
    tid: Number = -1
    ts: float = math.nan
    dur: float = 0.0
    args: Args = NO_ARGS


_HOST = {
    "cuda_runtime": HostKind.RUNTIME,
    "cuda_driver": HostKind.RUNTIME,
    "runtime": HostKind.RUNTIME,
    "cpu_op": HostKind.OP,
    "operator": HostKind.OP,
    "python_function": HostKind.PYTHON,
    "user_annotation": HostKind.ANNOTATION,
    "overhead": HostKind.OVERHEAD,
}
_DEVICE = {
    "kernel": DeviceKind.KERNEL,
    "mtia_ccp_events": DeviceKind.KERNEL,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "memcpy": DeviceKind.MEMCPY,
    "gpu_memset": DeviceKind.MEMSET,
    "memset": DeviceKind.MEMSET,
}


def kind_of(category: str) -> HostKind | DeviceKind | None:
    """Return the kind of a category, also capitalised (before 2022) or of an unknown accelerator
    (``xpu_runtime``, ``privateuse1_driver``); None for categories without evidence."""
    lower = category.lower()
    if lower in _DEVICE:
        return _DEVICE[lower]
    if lower in _HOST:
        return _HOST[lower]
    return HostKind.RUNTIME if lower.endswith(("_runtime", "_driver")) else None


class Interner(dict[Any, int]):
    """Numbers new keys in order, at dictionary speed. A file may be hostile: beyond ``limit`` keys,
    or ``limit_chars`` of text in them, all new keys share one number, whose key is ``other``."""

    def __init__(self, other: Any, *, limit: int, limit_chars: int = 1 << 62) -> None:
        super().__init__()
        self._other, self._limit, self._room = other, limit, limit_chars

    def __missing__(self, key: Any) -> int:
        number = len(self)
        if number >= self._limit or self._room < 0:
            key = self._other
            if key in self:
                return self[key]
        elif isinstance(key, str):
            self._room -= len(key)
        self[key] = number
        return number


def to_integer(value: Number) -> int:
    """Return a number as a signed 64-bit integer; -1 if it is not one."""
    try:
        number = int(value)  # type: ignore[arg-type]  # None is a TypeError, which is meant
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -(1 << 63) <= number < 1 << 63 else -1


def to_float(value: Number) -> float:
    """Return a number as a float; nan if it is not one."""
    try:
        return float(value)  # type: ignore[arg-type]  # see to_integer
    except (TypeError, ValueError, OverflowError):
        return math.nan


DetailKey = tuple[bytes, bytes, str, str, Number, Number, str]


def detail_key(args: Args) -> DetailKey:
    """Return the raw values that distinguish two events' details."""
    return (
        bytes(args.dims if args.dims is not EMPTY else args.old_dims),
        bytes(args.types),
        args.stack or "",
        args.collective or "",
        args.elements,
        args.group_size,
        args.group or "",
    )


def detail_of(key: DetailKey) -> Detail:
    """Return the details of a key."""
    dims, types, stack, collective, elements, group_size, group = key
    return Detail(
        dims=dims.decode("utf-8", "replace"),
        types=types.decode("utf-8", "replace"),
        stack=stack,
        collective=collective,
        elements=to_integer(elements),
        group_size=to_integer(group_size),
        group=group,
    )
