"""Idle device time caused by a host that had waited for the device. A host that waits until its
device has drained loses its lead. Without the wait that lead would hide the gap right after it and
the following ones, up to the waited time. Several waits add up; a batch or another rank that is
waited for in between ends the lead, and no lead exceeds a step. Later host work that is long by
itself has its own name and is not attributed to the wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.partition.idle_gaps import Gaps

PAUSE_NS = 200_000
"""longer Python without operators, or an operator without launches, is a pause of its own; the way
from one operator to the next takes 3 to 23 us at the median in real recordings"""


class _DrainedWaits(NamedTuple):
    """Waits after which the device was idle: one row per gap, in order of time."""

    gap: I64
    blocked: I64


class RunAhead(NamedTuple):
    """Limits of a host's lead: it ends at ``lost`` moments and is at most ``most`` ns; time in
    ``apart`` is not attributed to an earlier wait."""

    lost: I64
    most: int
    apart: Intervals = EMPTY


def find_refills(gaps: Gaps, begin: I64, end: I64, lead: RunAhead) -> Intervals:
    """Return idle time after waits with these begins and ends (ns)."""
    if not len(gaps) or not len(begin):
        return EMPTY
    gap, blocked = _find_drained(gaps, begin, end)
    if not len(gap):
        return EMPTY
    length = gaps.end - gaps.start
    before = np.cumsum(length) - length
    first = before[gap]
    following = np.append(first[1:], before[-1] + length[-1])
    until, cleared = _until_next_wait(gaps, gap, before, following, lead.lost)
    room = (until - first).tolist()
    taken = np.array(_blame_waits(blocked.tolist(), room, cleared.tolist(), lead.most))
    behind = Intervals(gaps.start[gap], gaps.start[gap] + np.minimum(blocked, length[gap]))
    return _clip_gaps(gaps, before, first, first + taken) - (lead.apart - behind)


def _find_drained(gaps: Gaps, begin: I64, end: I64) -> _DrainedWaits:
    index = np.searchsorted(gaps.start, end, side="right") - 1
    gap = np.maximum(index, 0)
    blocked = np.minimum(gaps.start[gap], end) - begin
    valid = (index >= 0) & (gaps.end[gap] > end) & (blocked > 0)
    longest_wait = np.zeros(len(gaps), np.int64)
    np.maximum.at(longest_wait, gap[valid], blocked[valid])
    rows = np.flatnonzero(longest_wait)
    return _DrainedWaits(rows, longest_wait[rows])


def _until_next_wait(
    gaps: Gaps, gap: I64, before: I64, following: I64, lost: I64
) -> tuple[I64, Mask]:
    """Idle time until the next wait or the end of the lead, and whether the lead ends first."""
    at = gaps.start[gap]
    index = np.searchsorted(lost, at, side="right")
    moment = np.append(lost, np.iinfo(np.int64).max)[index]
    behind = np.searchsorted(gaps.start, moment, side="right") - 1
    idle = before[behind] + np.minimum(moment, gaps.end[behind]) - gaps.start[behind]
    return np.minimum(idle, following), moment < np.append(at[1:], np.iinfo(np.int64).max)


def _blame_waits(blocked: list[int], room: list[int], cleared: list[bool], most: int) -> list[int]:
    lead, taken = 0, []
    for waited, idle, is_cleared in zip(blocked, room, cleared, strict=True):
        lead = min(lead + waited, most)
        taken.append(min(lead, idle))
        lead = 0 if is_cleared else lead - taken[-1]
    return taken


def _clip_gaps(gaps: Gaps, before: I64, low: I64, high: I64) -> Intervals:
    def moment(idle: I64, side: str) -> I64:
        row = np.maximum(np.searchsorted(before, idle, side=side) - 1, 0)  # type: ignore[call-overload]
        return gaps.start[row] + idle - before[row]

    return union_of(moment(low, "right"), moment(high, "left")) & Intervals(gaps.start, gaps.end)
