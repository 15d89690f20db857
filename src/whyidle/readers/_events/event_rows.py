"""Events of a recording that are decoded in blocks, and the columns of a ``Timeline`` from them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import DeviceEvents, HostEvents, MemorySamples, Timeline
from whyidle.readers._events.event_types import Interner

LONGEST_NS = 7 * 86_400 * 10**9
"""longest recording; times further from the median time are impossible"""
FEWEST_STEPS = 3
"""ranges of one name from which they may be the steps of a job"""
I64 = NDArray[np.int64]
Events = TypeVar("Events", HostEvents, DeviceEvents)
_HOST: dict[str, Any] = {"kind": 0, "name": 0, "thread": 0, "corr": -1, "detail": -1}
_HOST_TYPES = (np.uint8, np.int32, np.int16, np.int64, np.int32)
_DEVICE: dict[str, Any] = {
    "kind": 0,
    "name": 0,
    "device": 0,
    "stream": -1,
    "corr": -1,
    "size": -1,
    "blocks_per_sm": np.nan,
    "occupancy": np.nan,
    "detail": -1,
}
_DEVICE_TYPES = (
    *(np.uint8, np.int32, np.int16, np.int64, np.int64, np.int64),
    *(np.float32, np.float32, np.int32),
)


class EventRows:
    """Collects blocks of events. Times are ns on any one clock; other columns are arrays, or one
    value for the block. ``ignored`` counts the events whose times are impossible, once built."""

    def __init__(self) -> None:
        self.names = Interner("(further names)", limit=2_000_000, limit_chars=256 << 20)
        self.threads = Interner("(further threads)", limit=32_000)
        self.ignored = 0
        self._host: list[tuple[NDArray[Any], ...]] = []
        self._device: list[tuple[NDArray[Any], ...]] = []

    def add_host(self, start: I64, end: I64, **columns: Any) -> None:
        """Append events of host threads: ``kind``, ``name``, ``thread``, ``corr``, ``detail``."""
        self._host.append(_block(start, end, {**_HOST, **columns}, _HOST_TYPES))

    def add_device(self, start: I64, end: I64, **columns: Any) -> None:
        """Append events of device streams, with the columns of ``DeviceEvents``."""
        self._device.append(_block(start, end, {**_DEVICE, **columns}, _DEVICE_TYPES))

    def name_codes(self, texts: list[str]) -> NDArray[np.int32]:
        """The numbers of names."""
        return np.array([self.names[text] for text in texts], dtype=np.int32)

    def build(self) -> tuple[HostEvents, DeviceEvents, int]:
        """All events, sorted by start, longer first, and the time (ns) that they count from."""
        blocks = [*self._host, *self._device]
        starts = np.concatenate([block[0] for block in blocks]) if blocks else np.empty(0, np.int64)
        middle = int(np.median(starts)) if len(starts) else 0
        good = starts[np.abs(starts - middle) <= LONGEST_NS]
        base = int(good.min()) if len(good) else 0
        host = self._join(HostEvents, self._host, (*_HOST_TYPES,), middle, base)
        return host, self._join(DeviceEvents, self._device, _DEVICE_TYPES, middle, base), base

    def make_timeline(self, host: HostEvents, device: DeviceEvents, **fields: Any) -> Timeline:
        """A recording of the built events; ``fields`` are the others of ``Timeline``."""
        empty = np.empty(0, np.int64)
        return Timeline(
            names=tuple(self.names),
            details=(),
            threads=tuple(self.threads),
            host=host,
            device=device,
            memory=MemorySamples(empty, empty, empty),
            **fields,
        )

    def _join(
        self,
        kind: type[Events],
        blocks: list[tuple[NDArray[Any], ...]],
        types: tuple[Any, ...],
        middle: int,
        base: int,
    ) -> Events:
        types = (np.int64, np.int64, *types)
        empty = tuple(np.empty(0, dtype) for dtype in types)
        columns = [np.concatenate(parts) for parts in zip(empty, *blocks, strict=True)]
        start, end = columns[:2]
        possible = np.abs(start - middle) <= LONGEST_NS
        possible &= (end >= start) & (end - start <= LONGEST_NS)
        self.ignored += int((~possible).sum())
        rows = np.flatnonzero(possible)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        return kind(start[rows] - base, end[rows] - base, *(column[rows] for column in columns[2:]))


def _block(
    start: I64, end: I64, columns: dict[str, Any], types: tuple[Any, ...]
) -> tuple[NDArray[Any], ...]:
    typed = zip(columns.values(), types, strict=True)
    rest = (np.broadcast_to(np.asarray(value, dtype), start.shape) for value, dtype in typed)
    return (np.asarray(start, np.int64), np.asarray(end, np.int64), *rest)


def merge_spans(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of spans: sorted, disjoint, neither empty nor adjacent."""
    spans = np.flatnonzero(end > start)
    spans = spans[np.argsort(start[spans], kind="stable")]
    start, last = start[spans], np.maximum.accumulate(end[spans])
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = start[1:] > last[:-1]
    first = np.flatnonzero(opens)
    return start[first], last[np.r_[first[1:] - 1, len(start) - 1]] if len(first) else last


def find_innermost(start: I64, end: I64) -> NDArray[np.bool_]:
    """Which of the properly nested events enclose no other."""
    order = np.lexsort((-end, start))
    first, last = start[order], end[order]
    encloses = np.zeros(len(order), dtype=bool)
    encloses[:-1] = (first[1:] < last[:-1]) & (last[1:] <= last[:-1])
    innermost = np.ones(len(order), dtype=bool)
    innermost[order] = ~encloses
    return innermost
