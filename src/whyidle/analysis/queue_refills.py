"""Which idle time of the device a host that had waited for it is to blame for.

A host that waits until its device has drained stands still meanwhile. Had it not waited, it would
be that far ahead, and whatever it then took longer than the device would have been hidden: the gap
right behind the wait, and those that follow, until as much has been lost as it had stood still.
Several waits add up. A batch or another rank that is waited for in between takes that lead away:
who comes earlier waits longer. No lead is longer than a step. What takes the host long by itself
later on is not blamed on the wait, though the lead would hide it, too: it has a name of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.idle_gaps import Gaps
from whyidle.analysis.intervals import EMPTY, Intervals, union_of

I64 = NDArray[np.int64]

PAUSE_NS = 200_000
"""Python without any operator for this long is a thing of its own, not the way from one operator
to the next: that takes 3 to 23 us at the median in real recordings, ten times less. So is an
operator that launches nothing for so long"""


class _DrainedWaits(NamedTuple):
    """Waits after which the device stood still: one row per gap, in order of time."""

    gap: I64
    blocked: I64


class RunAhead(NamedTuple):
    """What bounds how far ahead a host would be: it is ``lost`` at these moments (ascending), it is
    at ``most`` so long, ns, and what lies ``apart`` is not blamed on an earlier wait."""

    lost: I64
    most: int
    apart: Intervals = EMPTY


def find_refills(gaps: Gaps, begin: I64, end: I64, lead: RunAhead) -> Intervals:
    """Idle time behind waits, which began and ended so (ns)."""
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
    """Where a wait ended with an idle device, and for how long it had been at work meanwhile."""
    index = np.searchsorted(gaps.start, end, side="right") - 1
    gap = np.maximum(index, 0)
    blocked = np.minimum(gaps.start[gap], end) - begin
    valid = (index >= 0) & (gaps.end[gap] > end) & (blocked > 0)
    longest = np.zeros(len(gaps), np.int64)
    np.maximum.at(longest, gap[valid], blocked[valid])
    rows = np.flatnonzero(longest)
    return _DrainedWaits(rows, longest[rows])


def _until_next_wait(
    gaps: Gaps, gap: I64, before: I64, following: I64, lost: I64
) -> tuple[I64, NDArray[np.bool_]]:
    """Idle time until the next wait, or until the lead is lost, and whether it is."""
    at = gaps.start[gap]
    index = np.searchsorted(lost, at, side="right")
    moment = np.append(lost, np.iinfo(np.int64).max)[index]
    behind = np.searchsorted(gaps.start, moment, side="right") - 1
    idle = before[behind] + np.minimum(moment, gaps.end[behind]) - gaps.start[behind]
    return np.minimum(idle, following), moment < np.append(at[1:], np.iinfo(np.int64).max)


def _blame_waits(blocked: list[int], room: list[int], cleared: list[bool], most: int) -> list[int]:
    """What each wait and those before it are to blame for, of the idle time that follows it."""
    lead, taken = 0, []
    for stood, idle, gone in zip(blocked, room, cleared, strict=True):
        lead = min(lead + stood, most)
        taken.append(min(lead, idle))
        lead = 0 if gone else lead - taken[-1]
    return taken


def _clip_gaps(gaps: Gaps, before: I64, low: I64, high: I64) -> Intervals:
    """From idle time to the clock."""

    def moment(idle: I64, side: str) -> I64:
        row = np.maximum(np.searchsorted(before, idle, side=side) - 1, 0)  # type: ignore[call-overload]
        return gaps.start[row] + idle - before[row]

    return union_of(moment(low, "right"), moment(high, "left")) & Intervals(gaps.start, gaps.end)
