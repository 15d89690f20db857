"""How the device kept up with the host, from marks in a sample of the steps.

The device comes to a mark when it has done all that it was given before. Times of the device are
put on the host's clock window by window: it cannot come to a mark before the mark was recorded, nor
before the next was, if it had not come to it then; so the clock is set by the mark at which it was
least behind. That is exact wherever the device had run dry, and makes it too early, never too late,
where it had not.

Between marks lie kernels and gaps alike: nothing in here tells them apart, and nothing in here
is a kernel. Three things are certain. From when the device had done everything, or the batch was
asked for, whichever is later, until the batch came: *late*. From when a mark was recorded until
the device came to it: *fed*, there was work in its queue (copies and waits for other streams
included). What is left is neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.model.marks import ASKED, BATCH, COMPLETED, UNCOMPLETED
from whyidle.model.timeline import Timeline

I64 = NDArray[np.int64]

LEAST_WINDOWS = 8
"""fewer windows than this say nothing about a run"""
LONGER = 1.5
"""of a step that took longer than the measured one next to it by more than this factor, the rest
is not known to be like it"""
AT_ONCE_NS = 50_000
"""a mark that the device came to this soon had nothing before it: a launch takes 5 to 20 us to get
there (HTA), and a queue that is never empty is further behind"""
PACED = 0.5
"""a device that had run dry at more than this share of the marks waits for the host"""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceProgress:
    """The measured windows. Columns of batches are one per handed-over batch, of windows one per
    window, ns; ``ahead`` is how long the device still had work when the batch was asked for, at
    least: it is known where the window is ``exact``, as the device ran dry in it."""

    batch: I64
    ahead: I64
    window: I64
    span: I64
    fed: I64
    late: I64
    exact: NDArray[np.bool_]
    looks: int
    dry: int

    def __len__(self) -> int:
        return len(self.window)

    @property
    def is_sufficient(self) -> bool:
        """Whether there is enough to speak for the run."""
        return len(self) >= LEAST_WINDOWS

    @property
    def late_share(self) -> float:
        """Share of the measured time in which the device waited for a batch (0-1)."""
        return float(self.late.sum() / max(self.span.sum(), 1))

    @property
    def fed_share(self) -> float:
        """Share of the measured time in which it certainly had work in its queue (0-1)."""
        return float(self.fed.sum() / max(self.span.sum(), 1))

    @property
    def dry_share(self) -> float:
        """Share of the marks, those around batches aside, at which it had done all that it was
        given (0-1): it follows the host's pace, or the host waited for it."""
        return self.dry / max(self.looks, 1)

    @property
    def ahead_known(self) -> bool:
        """Whether most windows tell how far the device was behind; else it was so far at least."""
        return bool(len(self)) and float(self.exact.mean()) > 1 / 2

    def late_in(self, start: I64, end: I64) -> Intervals:
        """When the device waited, in calls for a batch: each is taken to have found it as far
        behind as the measured call nearest in time."""
        if not len(self.batch) or not len(start):
            return union_of(start[:0], end[:0])
        begin = start + self.ahead[_nearest_index(self.batch, end)]
        late = begin < end
        return union_of(begin[late], end[late])

    def fed_in(self, start: I64, end: I64, idle: Intervals, apart: Intervals = EMPTY) -> Intervals:
        """When the device had work, in steps: each is taken for as busy as the measured one nearest
        in time, what was ``apart`` from training aside. Where in the step it was so is not known;
        it is put as late as it goes beside what is known to be ``idle``, or apart."""
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


def _time_after(free: Intervals, wanted: I64) -> I64:
    """When so much of some free time has passed, ns."""
    if not len(free):
        return wanted
    done = np.cumsum(free.length)
    index = np.minimum(np.searchsorted(done, wanted, side="right"), len(free) - 1)
    return (free.end[index] - (done[index] - wanted)).astype(np.int64)


def _nearest_index(times: I64, wanted: I64) -> I64:
    right = np.clip(np.searchsorted(times, wanted), 0, len(times) - 1)
    left = np.maximum(right - 1, 0)
    closer = np.abs(times[left] - wanted) <= np.abs(times[right] - wanted)
    return np.where(closer, left, right).astype(np.int64)


def read_progress(timeline: Timeline) -> DeviceProgress:
    """Read the marks of a recording; those of disturbed windows are left out."""
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
    looks = clear & ~batch & (rows["kind"] != ASKED)
    at_once = dry & (device - host < AT_ONCE_NS)
    kept = step > 0
    return DeviceProgress(
        batch=host[batch],
        ahead=ahead[batch],
        window=host[first][kept],
        span=step[kept],
        fed=_sum_groups(fed, index, len(first))[kept],
        late=_sum_groups(late, index, len(first))[kept],
        exact=_sum_groups((clear & dry).astype(np.int64), index, len(first))[kept] > 0,
        looks=int(looks.sum()),
        dry=int((looks & at_once).sum()),
    )


def _clock_lead(rows: NDArray[Any], host: I64, device: I64, inner: NDArray[np.bool_]) -> I64:
    """How much too early the device's clock is at least, told by a mark that it had not come to
    when the next one was recorded."""
    known = inner & (rows["before"] == UNCOMPLETED)
    late = np.concatenate([host[:1], host[1:] - device[:-1]])
    return np.where(known, late, np.iinfo(np.int64).min)


def _sum_groups(values: I64, index: I64, count: int) -> I64:
    total = np.zeros(count, np.int64)
    np.add.at(total, index, values)
    return total


def _disturbed_windows(timeline: Timeline, host: I64, first: I64) -> NDArray[np.bool_]:
    """Which windows lie in a time that measuring itself disturbed, or overlap it."""
    found = np.zeros(len(first), dtype=bool)
    if not len(first):
        return found
    last = host[np.append(first[1:], len(host)) - 1]
    for begin, end in timeline.disturbed:
        found |= (host[first] < end) & (last > begin)
    return found
