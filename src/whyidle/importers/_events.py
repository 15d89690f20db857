"""Chrome trace events, decoded by type, and turned into columns piece by piece."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import Detail, DeviceKind, HostKind


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments we read; everything else is skipped by the decoder."""

    correlation: int = -1
    device: int = -1
    stream: int | str = -1
    size: int = msgspec.field(default=-1, name="bytes")
    blocks_per_sm: float = msgspec.field(default=math.nan, name="blocks per SM")
    occupancy: float = msgspec.field(default=math.nan, name="est. achieved occupancy %")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    old_dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input type")
    stack: str = msgspec.field(default="", name="Call stack")
    collective: str = msgspec.field(default="", name="Collective name")
    elements: int = msgspec.field(default=-1, name="In msg nelems")
    group_size: int = msgspec.field(default=-1, name="Group size")
    group: str = msgspec.field(default="", name="Process Group Name")
    allocated: int = msgspec.field(default=-1, name="Total Allocated")
    reserved: int = msgspec.field(default=-1, name="Total Reserved")
    device_type: int = msgspec.field(default=-1, name="Device Type")


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """One trace event."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | float = -1
    tid: int | str | float = -1
    ts: float = math.nan
    dur: float = 0.0
    args: Args = NO_ARGS


DECODE = msgspec.json.Decoder(list[Event]).decode
_LOOSE = msgspec.json.Decoder().decode

HOST_CATEGORIES = {
    "cuda_runtime": HostKind.RUNTIME,
    "cuda_driver": HostKind.RUNTIME,
    "runtime": HostKind.RUNTIME,
    "cpu_op": HostKind.OP,
    "operator": HostKind.OP,
    "python_function": HostKind.PYTHON,
    "user_annotation": HostKind.ANNOTATION,
    "overhead": HostKind.OVERHEAD,
}
DEVICE_CATEGORIES = {
    "kernel": DeviceKind.KERNEL,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "memcpy": DeviceKind.MEMCPY,
    "gpu_memset": DeviceKind.MEMSET,
    "memset": DeviceKind.MEMSET,
}


def host_kind(category: str) -> HostKind | None:
    """The kind of a host category, capitalised or of an accelerator that we have not met."""
    lower = category.lower()
    if lower in HOST_CATEGORIES:
        return HOST_CATEGORIES[lower]
    return HostKind.RUNTIME if lower.endswith(("_runtime", "_driver")) else None


def decode(text: bytes) -> list[Event]:
    """Events of a JSON array. Falls back to a lenient reading where a value has another type
    than usual. Raises ValueError where the text is not a JSON array."""
    try:
        return DECODE(text)
    except msgspec.ValidationError:
        values = _LOOSE(text)
        if not isinstance(values, list):
            raise ValueError("not a list of events") from None
        return [_lenient(value) for value in values if isinstance(value, dict)]


def _lenient(value: dict[str, Any]) -> Event:
    given = value.get("args")
    given = given if isinstance(given, dict) else {}
    fields = zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True)
    args = {field: _fit(field, given[key]) for field, key in fields if key in given}
    event = {key: value[key] for key in ("pid", "tid") if isinstance(value.get(key), int | str)}
    texts = {key: str(value.get(key, "")) for key in ("ph", "cat", "name")}
    times = {"ts": _number(value.get("ts"), math.nan), "dur": _number(value.get("dur"), 0.0)}
    kept = {key: item for key, item in args.items() if item is not None}
    return Event(**texts, **times, **event, args=Args(**kept))


def _number(value: Any, default: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _fit(field: str, value: Any) -> Any:
    if field in ("dims", "old_dims", "types"):
        return msgspec.Raw(msgspec.json.encode(value))
    if field in ("stack", "collective", "group"):
        return str(value)
    number = _number(value, math.nan)
    if field in ("blocks_per_sm", "occupancy"):
        return number
    if field == "stream" and isinstance(value, str):
        return value
    return int(number) if math.isfinite(number) and abs(number) < 2**62 else None


class Interner(dict[Any, int]):
    """Gives every new key the next number, at dictionary speed."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


def integers(values: Iterable[Any]) -> NDArray[np.int64]:
    """int64 column; what does not fit becomes -1."""
    listed = list(values)
    try:
        return np.array(listed, dtype=np.int64)
    except (OverflowError, ValueError, TypeError):
        fits = (v if isinstance(v, int) and -(2**63) <= v < 2**63 else -1 for v in listed)
        return np.fromiter(fits, dtype=np.int64, count=len(listed))


def detail_of(args: Args) -> Detail:
    """What an event says beyond its name, from its arguments."""
    dims = bytes(args.dims or args.old_dims).decode("utf-8", "replace")
    return Detail(
        dims=dims,
        types=bytes(args.types).decode("utf-8", "replace"),
        stack=args.stack,
        collective=args.collective,
        elements=args.elements,
        group_size=args.group_size,
        group=args.group,
    )
