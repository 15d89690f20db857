"""How the device kept up with the host, from marks in a sample of the steps.

The device reaches a mark once it has done everything launched before it. Its times are aligned to
the host's clock per window by the mark at which it was least behind, as it cannot reach a mark
before its recording; that is exact where it had run dry and otherwise too early.

Marks do not separate kernels from gaps. Known are *late* time, from when the device was done or the
batch was requested, whichever is later, until the batch came; and *fed* time, from the recording of
a mark until the device reached it, with work (or copies and stream waits) in its queue.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.model.device_timestamps import ASKED, BATCH, COMPLETED, UNCOMPLETED
from whyidle.model.timeline import Timeline

LEAST_WINDOWS = 8
"""fewer windows do not represent a run"""
LONGER = 1.5
"""of a step longer than the nearest measured one by more than this factor, the rest is unknown"""
AT_ONCE_NS = 50_000
"""a mark reached this soon had nothing before it; a launch takes 5 to 20 us (HTA)"""


class DeviceProgress(Struct, frozen=True, eq=False):
    """The measured windows: columns per handed-over batch and per window, ns. ``ahead`` is the
    least time that the device still had work when the batch was requested."""

    batch: I64
    ahead: I64
    window: I64
    span: I64
    fed: I64
    late: I64
    looks: int
    dry: int

    def __len__(self) -> int:
        return len(self.window)

    @property
    def is_sufficient(self) -> bool:
        """Whether there are enough windows to represent the run."""
        return len(self) >= LEAST_WINDOWS

    @property
    def late_share(self) -> float:
        """Share of the measured time in which the device waited for a batch (0-1)."""
        return float(self.late.sum() / max(self.span.sum(), 1))

    @property
    def fed_share(self) -> float:
        """Share of the measured time in which its queue certainly held work (0-1)."""
        return float(self.fed.sum() / max(self.span.sum(), 1))

    @property
    def dry_share(self) -> float:
        """Share of the marks outside batches at which the device was done (0-1)."""
        return self.dry / max(self.looks, 1)

    def late_in(self, start: I64, end: I64) -> Intervals:
        """Return when the device waited in calls for a batch, by the nearest measured call."""
        if not len(self.batch) or not len(start):
            return union_of(start[:0], end[:0])
        begin = start + self.ahead[_nearest_index(self.batch, end)]
        late = begin < end
        return union_of(begin[late], end[late])

    def fed_in(self, start: I64, end: I64, idle: Intervals, apart: Intervals = EMPTY) -> Intervals:
        """Return when the device had work in steps, by the nearest measured one; as late as
        ``idle`` and ``apart`` time allow."""
        near = _nearest_index(self.window, end)
        length = np.minimum(end - start - apart.length_inside(start, end), LONGER * self.span[near])
        busy = (length * self.fed[near] / np.maximum(self.span[near], 1)).astype(np.int64)
        if not len(start):
            return EMPTY
        free = union_of(start[:1], end[-1:]) - idle - apart
        since = _time_after(
            free, free.length_before(end) - np.minimum(busy, free.length_inside(start, end))
        )
        return union_of(since, end) & free


def _time_after(free: Intervals, amount: I64) -> I64:
    """When so much of some free time has passed, ns."""
    if not len(free):
        return amount
    done = np.cumsum(free.length)
    index = np.minimum(np.searchsorted(done, amount, side="right"), len(free) - 1)
    return (free.end[index] - (done[index] - amount)).astype(np.int64)


def _nearest_index(times: I64, moments: I64) -> I64:
    right = np.clip(np.searchsorted(times, moments), 0, len(times) - 1)
    left = np.maximum(right - 1, 0)
    closer = np.abs(times[left] - moments) <= np.abs(times[right] - moments)
    return np.where(closer, left, right).astype(np.int64)


def read_progress(timeline: Timeline) -> DeviceProgress:
    """Read the marks of a recording, without disturbed windows."""
    rows = timeline.marks
    first = np.flatnonzero(np.diff(rows["window"].astype(np.int64), prepend=-1))
    index = np.cumsum(np.isin(np.arange(len(rows)), first)) - 1
    host, begin = rows["host"].astype(np.int64), rows["begin"].astype(np.int64)
    device = rows["device"].astype(np.int64)
    inner = np.ones(len(rows), dtype=bool)
    inner[first] = False
    if len(first):
        early = np.maximum(host - device, _clock_lead(rows, host, device, inner))
        device = device + np.maximum.reduceat(early, first)[index]
    before = np.concatenate([device[:1], device[:-1]])
    clear = inner & ~_disturbed_windows(timeline, host, first)[index]
    batch = clear & (rows["kind"] == BATCH)
    dry = rows["before"] == COMPLETED
    late = np.where(batch & dry, np.maximum(host - np.maximum(before, begin), 0), 0)
    fed = np.where(clear, np.maximum(device - np.maximum(before, host), 0), 0)
    span = np.where(clear, device - before, 0)
    step = np.zeros(len(first), np.int64)
    np.add.at(step, index, span)
    ahead = np.maximum(before - begin, 0)
    ahead = np.where(rows["before"] == UNCOMPLETED, np.maximum(ahead, step[index]), ahead)
    checked = clear & ~batch & (rows["kind"] != ASKED)
    at_once = dry & (device - host < AT_ONCE_NS)
    measured = step > 0
    return DeviceProgress(
        batch=host[batch],
        ahead=ahead[batch],
        window=host[first][measured],
        span=step[measured],
        fed=_sum_groups(fed, index, len(first))[measured],
        late=_sum_groups(late, index, len(first))[measured],
        looks=int(checked.sum()),
        dry=int((checked & at_once).sum()),
    )


def _clock_lead(rows: NDArray[Any], host: I64, device: I64, inner: Mask) -> I64:
    """How early the device's clock is at least, by marks not reached before the next one."""
    known = inner & (rows["before"] == UNCOMPLETED)
    late = np.concatenate([host[:1], host[1:] - device[:-1]])
    return np.where(known, late, np.iinfo(np.int64).min)


def _sum_groups(values: I64, index: I64, count: int) -> I64:
    total = np.zeros(count, np.int64)
    np.add.at(total, index, values)
    return total


def _disturbed_windows(timeline: Timeline, host: I64, first: I64) -> Mask:
    disturbed = np.zeros(len(first), dtype=bool)
    if not len(first):
        return disturbed
    last = host[np.append(first[1:], len(host)) - 1]
    for begin, end in timeline.disturbed:
        disturbed |= (host[first] < end) & (last > begin)
    return disturbed
