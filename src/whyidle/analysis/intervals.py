"""Sets of time as sorted, disjoint intervals, and their vectorised algebra."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import I64, Mask


class Intervals(Struct, frozen=True, eq=False):
    """Disjoint half-open intervals ``[start, end)`` in nanoseconds, sorted."""

    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> I64:
        """Length of each interval, ns."""
        return self.end - self.start

    @property
    def total(self) -> int:
        """Summed length, ns."""
        return int(self.length.sum())

    def __or__(self, other: Intervals) -> Intervals:
        return union_of(
            np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end])
        )

    def __and__(self, other: Intervals) -> Intervals:
        """Return the part of this set inside the other."""
        if len(other) < len(self):
            return other & self
        first = np.searchsorted(other.end, self.start, side="right")
        count = np.maximum(np.searchsorted(other.start, self.end, side="left") - first, 0)
        mine = np.repeat(np.arange(len(self)), count)
        theirs = np.arange(len(mine)) + np.repeat(first - (np.cumsum(count) - count), count)
        return union_of(
            np.maximum(self.start[mine], other.start[theirs]),
            np.minimum(self.end[mine], other.end[theirs]),
        )

    def __sub__(self, other: Intervals) -> Intervals:
        """Return the part of this set outside the other."""
        if not len(self) or not len(other):
            return self
        low, high = min(self.start[0], other.start[0]), max(self.end[-1], other.end[-1])
        return self & Intervals(np.append(low, other.end), np.append(other.start, high))

    def select(self, mask: Mask) -> Intervals:
        """Return some of the intervals."""
        return Intervals(self.start[mask], self.end[mask])

    def clip_to(self, low: int, high: int) -> Intervals:
        """Return the part inside ``[low, high)``."""
        start, end = np.clip(self.start, low, high), np.clip(self.end, low, high)
        keep = end > start
        return Intervals(start[keep], end[keep])

    def length_before(self, times: I64) -> I64:
        """Return how much of the set lies before each time, ns."""
        if not len(self):
            return np.zeros(len(times), dtype=np.int64)
        done = np.concatenate([[0], np.cumsum(self.length)])
        index = np.searchsorted(self.start, times, side="right")
        open_since = np.where(index > 0, self.start[np.maximum(index - 1, 0)], times)
        partial = np.minimum(times - open_since, self.length[np.maximum(index - 1, 0)])
        return np.where(index > 0, done[np.maximum(index - 1, 0)] + partial, 0).astype(np.int64)

    def length_inside(self, start: I64, end: I64) -> I64:
        """Return how much of the set lies in each window ``[start, end)``, ns."""
        return self.length_before(end) - self.length_before(start)

    def contains_times(self, times: I64) -> Mask:
        """Return whether each time lies inside the set."""
        if not len(self):
            return np.zeros(len(times), dtype=bool)
        index = np.searchsorted(self.start, times, side="right") - 1
        return (index >= 0) & (times < self.end[np.maximum(index, 0)])


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union_of(start: I64, end: I64) -> Intervals:
    """Return the union of intervals in any order."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    order = np.argsort(start, kind="stable")
    return _merge_sorted(start[order], end[order])


def _merge_sorted(start: I64, end: I64) -> Intervals:
    if not len(start):
        return EMPTY
    reach = np.maximum.accumulate(end)
    new = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([np.flatnonzero(new)[1:] - 1, [len(start) - 1]])
    return Intervals(start[new], reach[last])
