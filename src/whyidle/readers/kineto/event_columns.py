"""Columns of a ``Timeline`` from tables of decoded events."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import Detail, DeviceEvents, HostEvents, HostKind, MemorySamples
from whyidle.readers._events.event_tables import ColumnTable, EventTables
from whyidle.readers._events.event_types import detail_of

_ANNOTATION = re.compile(
    r"^(ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|nccl:|gloo:|## |DistributedDataParallel)"
)
LONGEST_US = 7 * 86400e6
"""longest recording; times further from the median time are impossible"""


class EventColumns(EventTables):
    """Tables as the columns of a ``Timeline``. ``close`` fixes the clock (``base_ns``); then
    ``host_events``, ``device_events`` and ``memory_samples`` each return their columns once.
    ``ignored`` counts events with impossible times, ``unset`` those whose time is 0 because none
    was recorded. ``device_thread`` is the track of each device event."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored = self.unset = 0
        self.base_ns = 0
        self.device_thread: NDArray[np.int16] = np.empty(0, np.int16)
        self._base_us = self._middle_us = 0.0
        self._unset_us = float("nan")

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
