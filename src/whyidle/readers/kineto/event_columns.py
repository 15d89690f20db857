"""Columns of a ``Timeline`` from decoded events, by way of compact tables of machine numbers: 45
bytes per host event and 79 per device event, whatever the text was."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.event_kinds import DeviceKind, HostKind
from whyidle.model.timeline import Detail, DeviceEvents, HostEvents, MemorySamples
from whyidle.readers._events.event_decoding import set_exact_times
from whyidle.readers._events.event_types import (
    EMPTY,
    NO_ARGS,
    Args,
    Event,
    Interner,
    Number,
    detail_key,
    detail_of,
    kind_of,
    to_float,
    to_integer,
)

_MTIA, _NO_WORK = "mtia_ccp_events", "event_"
"""events of MTIA that wait for other queues and record marks for them, instead of working"""
_EXACT_BELOW_US = float(1 << 43)
"""below this, a double holds microseconds to the nanosecond"""
_SAMPLE_BYTES = 1 << 14
_FRACTION = re.compile(rb'"ts"\s*:\s*\d+\.\d*[1-9]')
_WITH_DETAIL = (HostKind.OP, HostKind.ANNOTATION)
_HOST_CODES = "ts:d dur:d kind:B name:i thread:h corr:q detail:i"
_DEVICE_CODES = (
    "ts:d dur:d kind:B name:i device:h stream:q corr:q size:q blocks_per_sm:f occupancy:f detail:i "
    "thread:h"
)
_MEMORY_CODES = "ts:d allocated:q reserved:q device_id:q"
_ANNOTATION = re.compile(
    r"^(ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|nccl:|gloo:|## |DistributedDataParallel)"
)
LONGEST_US = 7 * 86400e6
"""longest recording; times further from the median time are impossible"""


class ColumnTable:
    """Columns of one length, as arrays of machine numbers."""

    def __init__(self, codes: str) -> None:
        pairs = (part.split(":") for part in codes.split())
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in pairs}

    def extend_rows(self, **values: Iterable[Any]) -> None:
        """Append rows, given as columns."""
        for name, listed in values.items():
            column = self.columns[name]
            column.extend(listed if isinstance(listed, array) else array(column.typecode, listed))


class _CategoryGroups(dict[str, Callable[[Event], None]]):
    def __init__(self) -> None:
        self.lists: dict[str, list[Event]] = {}
        self.instants: list[Event] = []

    def __missing__(self, category: str) -> Callable[[Event], None]:
        group = self.lists[category] = []
        append = self[category] = group.append
        return append


class EventColumns:
    """Tables that grow piece by piece, and then become the columns of a ``Timeline``. ``events``
    counts all events, ``categories`` the complete events per category. ``close`` fixes the clock
    (``base_ns``); then ``host_events``, ``device_events`` and ``memory_samples`` each return their
    columns once. ``ignored`` counts events with impossible times, ``unset`` those whose time is 0
    because none was recorded. ``device_thread`` is the track of each device event."""

    def __init__(self) -> None:
        self.names = Interner("(further names)", limit=2_000_000, limit_chars=256 << 20)
        self.categories: dict[str, int] = defaultdict(int)
        self.events = 0
        self._threads = Interner(("", "(further threads)"), limit=32_000)
        self._details = Interner((b"", b"", "", "", -1, -1, ""), limit=1_000_000)
        self._kinds: dict[str, HostKind | DeviceKind | None] = {}
        self._host = ColumnTable(_HOST_CODES)
        self._device = ColumnTable(_DEVICE_CODES)
        self._memory = ColumnTable(_MEMORY_CODES)
        self._origin_us: int | None = None
        self.ignored = self.unset = 0
        self.base_ns = 0
        self.device_thread: NDArray[np.int16] = np.empty(0, np.int16)
        self._base_us = self._middle_us = 0.0
        self._unset_us = float("nan")

    @property
    def _tables(self) -> tuple[ColumnTable, ColumnTable, ColumnTable]:
        return self._host, self._device, self._memory

    @property
    def event_count(self) -> int:
        """Number of events in the columns."""
        return len(self._host.columns["ts"]) + len(self._device.columns["ts"])

    def add_piece(self, events: list[Event], text: bytes) -> None:
        """Append one piece, without events of categories that carry no evidence."""
        self.events += len(events)
        if self._origin_us is not None or self._needs_origin(events, text):
            set_exact_times(events, text, self._time_origin(events))
        groups = _CategoryGroups()
        for event in events:
            if event.ph == "X":
                groups[event.cat](event)
            elif event.ph == "i" and event.args is not NO_ARGS:
                groups.instants.append(event)
        if groups.instants:
            self._add_memory(groups.instants)
        for category, group in groups.lists.items():
            self.categories[category] += len(group)
            if category not in self._kinds:
                self._kinds[category] = kind_of(category)
            kind = self._kinds[category]
            if isinstance(kind, DeviceKind):
                self._add_device(kind, _without_marks(group) if category == _MTIA else group)
            elif kind is not None:
                self._add_host(kind, group)

    def _needs_origin(self, events: list[Event], text: bytes) -> bool:
        """Whether times are so large that a double loses nanoseconds of the text."""
        large = any(_EXACT_BELOW_US < e.ts < inf for e in events[:32] if e.ph == "X")
        searched = len(text) if self.event_count == 0 else _SAMPLE_BYTES
        return large and _FRACTION.search(text, 0, searched) is not None

    def _time_origin(self, events: list[Event]) -> int:
        """The origin of exact times. Earlier times had no fraction to lose."""
        if self._origin_us is None:
            self._origin_us = next(
                int(e.ts) for e in events if e.ph == "X" and _EXACT_BELOW_US < e.ts < inf
            )
            for table in self._tables:
                table.columns["ts"] = array("d", [t - self._origin_us for t in table.columns["ts"]])
        return self._origin_us

    def _add_host(self, kind: HostKind, events: list[Event]) -> None:
        count, names, threads = len(events), self.names, self._threads
        none = array("q", [-1]) * count
        runtime = kind is HostKind.RUNTIME
        self._host.extend_rows(
            ts=[event.ts for event in events],
            dur=[event.dur for event in events],
            kind=array("B", [kind]) * count,
            name=[names[event.name] for event in events],
            thread=[threads[event.pid, event.tid] for event in events],
            corr=_integer_array([event.args.correlation for event in events]) if runtime else none,
            detail=self._intern_details(events)
            if kind in _WITH_DETAIL
            else array("i", [-1]) * count,
        )

    def _add_device(self, kind: DeviceKind, events: list[Event]) -> None:
        names, threads = self.names, self._threads
        args = [event.args for event in events]
        self._device.extend_rows(
            ts=[event.ts for event in events],
            dur=[event.dur for event in events],
            kind=array("B", [kind]) * len(events),
            name=[names[event.name] for event in events],
            device=[_device_number(event) for event in events],
            stream=[_stream_number(event) for event in events],
            corr=_integer_array([a.correlation for a in args]),
            size=_integer_array([a.size for a in args]),
            blocks_per_sm=_real_array([a.blocks_per_sm for a in args]),
            occupancy=_real_array([a.occupancy for a in args]),
            detail=self._intern_details(events),
            thread=[threads[event.pid, event.tid] for event in events],
        )

    def _intern_details(self, events: list[Event]) -> list[int]:
        details = self._details
        return [
            -1
            if (a := event.args).dims is EMPTY
            and a.old_dims is EMPTY
            and not a.collective
            and not a.stack
            else details[detail_key(a)]
            for event in events
        ]

    def _add_memory(self, events: list[Event]) -> None:
        valid = [event for event in events if _is_device_memory(event.args)]
        self._memory.extend_rows(
            ts=[event.ts for event in valid],
            allocated=_integer_array([event.args.allocated for event in valid]),
            reserved=_integer_array([event.args.reserved for event in valid]),
            device_id=_integer_array([event.args.device_id for event in valid]),
        )

    def close(self) -> None:
        """Fix the clock: ``base_ns`` is the first valid time, so that no start is negative."""
        starts = [_view_column(self._host, "ts"), _view_column(self._device, "ts")]
        self._middle_us = _middle_of(starts)
        self._find_unset_times(starts)
        valid = [ts[self._is_near(ts)] for ts in starts]
        self._base_us = float(np.floor(min((ts.min() for ts in valid if len(ts)), default=0.0)))
        self.base_ns = (int(self._base_us) + (self._origin_us or 0)) * 1000

    def _find_unset_times(self, starts: list[NDArray[np.float64]]) -> None:
        """Times of 0 are unset if the others begin over a second later and lie closer together than
        that: no clock starts there, and a recording does not begin with so long a pause."""
        zero = 0.0 - (self._origin_us or 0)
        if not any((ts == zero).any() for ts in starts):
            return
        others = [ts[np.isfinite(ts) & (ts != zero)] for ts in starts]
        middle = _middle_of(others)
        near = [ts[np.abs(ts - middle) <= LONGEST_US] for ts in others]
        first = min((ts.min() for ts in near if len(ts)), default=zero)
        last = max((ts.max() for ts in near if len(ts)), default=zero)
        if first - zero > max(1e6, last - first):
            self._unset_us, self._middle_us = zero, middle

    def _is_near(self, ts: NDArray[np.float64]) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore", over="ignore"):
            return (np.abs(ts - self._middle_us) <= LONGEST_US) & (ts != self._unset_us)

    def _sorted_times(self, table: ColumnTable) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
        """(start, end, rows in order or a slice of all), longer first at equal starts."""
        ts, dur = _pop_column(table, "ts"), _pop_column(table, "dur")
        good = self._is_near(ts) & (dur >= 0) & (dur <= LONGEST_US)
        rows: Any = slice(None)
        if not good.all():
            unset = int((ts == self._unset_us).sum())
            self.unset += unset
            self.ignored += int((~good).sum()) - unset
            rows = np.flatnonzero(good)
            ts, dur = ts[rows], dur[rows]
        start = np.rint((ts - self._base_us) * 1e3).astype(np.int64)
        end = start + np.rint(dur * 1e3).astype(np.int64)
        order = _sort_order(start, end)
        if order is not None:
            start, end = start[order], end[order]
            rows = order if isinstance(rows, slice) else rows[order]
        return start, end, rows

    def host_events(self) -> HostEvents:
        """Return all host events, sorted by start, longer first."""
        start, end, rows = self._sorted_times(self._host)
        rest = {name: _pop_column(self._host, name)[rows] for name in list(self._host.columns)}
        events = HostEvents(start, end, **rest)
        renamed = [i for name, i in self.names.items() if _ANNOTATION.match(name)]
        if renamed:
            is_op = events.kind == HostKind.OP
            events.kind[is_op & np.isin(events.name, renamed)] = HostKind.ANNOTATION
        return events

    def device_events(self) -> DeviceEvents:
        """Return all device events, sorted by start, longer first."""
        start, end, rows = self._sorted_times(self._device)
        rest = {name: _pop_column(self._device, name)[rows] for name in list(self._device.columns)}
        for name in ("blocks_per_sm", "occupancy"):
            rest[name] = np.where(np.abs(rest[name]) < 1e30, rest[name], np.float32(np.nan))
        rest["occupancy"] /= np.float32(100)
        self.device_thread = rest.pop("thread")
        return DeviceEvents(start, end, **rest)

    def memory_samples(self) -> MemorySamples:
        """Return the memory of the device with the most allocator events, by time."""
        ts, device = _view_column(self._memory, "ts"), _view_column(self._memory, "device_id")
        allocated = _view_column(self._memory, "allocated")
        reserved = _view_column(self._memory, "reserved")
        keep = self._is_near(ts)
        if len(device):
            ids, counts = np.unique(device, return_counts=True)
            keep = keep & (device == ids[counts.argmax()])
        rows = np.flatnonzero(keep)
        rows = rows[np.argsort(ts[rows], kind="stable")]
        time = np.rint((ts[rows] - self._base_us) * 1e3).astype(np.int64)
        return MemorySamples(time, allocated[rows], reserved[rows])

    def thread_names(self) -> tuple[str, ...]:
        """Return the threads' names, ``process/thread``."""
        return tuple(f"{pid}/{tid}" for pid, tid in self._threads)

    def event_details(self) -> tuple[Detail, ...]:
        """Return what events record beyond their name."""
        return tuple(detail_of(key) for key in self._details)


def _without_marks(events: list[Event]) -> list[Event]:
    return [event for event in events if not event.name.startswith(_NO_WORK)]


def _integer_array(values: list[Number]) -> array[int]:
    try:
        return array("q", values)  # type: ignore[arg-type]  # the exception is the check
    except (TypeError, OverflowError):
        return array("q", map(to_integer, values))


def _real_array(values: list[Number]) -> array[float]:
    try:
        return array("f", values)  # type: ignore[arg-type]  # the exception is the check
    except (TypeError, OverflowError):
        return array("f", map(to_float, values))


def _is_device_memory(args: Args) -> bool:
    kind, allocated = args.device_type, args.allocated
    if type(kind) is int and type(allocated) is int:
        return kind > 0 and allocated >= 0
    return to_integer(kind) > 0 and to_integer(allocated) >= 0


def _device_number(event: Event) -> int:
    number = event.args.device
    if type(number) is not int or number < 0:
        number = to_integer(number)
        if number < 0 and isinstance(event.pid, int):
            number = event.pid
    return number if -1 <= number < 1 << 15 else -1


def _stream_number(event: Event) -> int:
    stream = event.args.stream
    if type(stream) is int and 0 <= stream < 1 << 62:
        return stream
    digits = re.search(r"\d{1,18}", str(event.tid if stream in (-1, None) else stream))
    return int(digits[0]) if digits else -1


def _view_column(table: ColumnTable, name: str) -> NDArray[Any]:
    return np.asarray(table.columns[name])


def _pop_column(table: ColumnTable, name: str) -> NDArray[Any]:
    return np.asarray(table.columns.pop(name))


def _middle_of(starts: list[NDArray[np.float64]]) -> float:
    """The median of a sample of times; 0 without any."""
    sample = np.concatenate([ts[:: 1 + len(ts) // 4096] for ts in starts])
    sample = np.sort(sample[np.isfinite(sample)])
    return float(sample[len(sample) // 2]) if len(sample) else 0.0


def _sort_order(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """The order by start, longer first; None if the rows are already sorted."""
    step = np.diff(start)
    if ((step > 0) | ((step == 0) & (np.diff(end) <= 0))).all():
        return None
    order = np.argsort(start, kind="stable")
    tied = np.diff(start[order]) == 0
    places = np.flatnonzero(np.r_[tied, False] | np.r_[False, tied])
    some = order[places]
    order[places] = some[np.lexsort((-end[some], start[some]))]
    return order
