"""The device of a replay: work in order, and collectives on streams of their own. Each piece starts
when its launch has arrived and all that had ended when it began in the recording has ended again.
Work waits for collectives only where the device had nothing else to do until they ended. So work
that overlaps a collective counts in full, and a collective that less work no longer hides is waited
for where work waited before."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.partition.host_activity import collective_kernels
from whyidle.analysis.partition.idle_gaps import Launches, pick_rows
from whyidle.model.timeline import Timeline

CALL_NS = 5_000.0
"""cost of a call that no longer waits"""
WORK, SENT = 0, 1
"""the lanes"""


class Lane(Struct, frozen=True, eq=False):
    """Pieces by start, ns. ``reach`` is when each and all before it had ended; ``own`` and
    ``other`` are how many pieces of this and of the other lane each waits for."""

    rows: I64
    called: I64
    arrives: F64
    work: F64
    gap: F64
    reach: I64
    own: I64
    other: I64

    def piece_costs(self, factor: F64 | None, *, fewer: bool) -> F64:
        """Return what each piece takes, with a factor per device event."""
        ratio = 1.0 if factor is None else factor[self.rows]
        cost: F64 = self.work * ratio + self.gap * (ratio if fewer else 1.0)
        return cost


class Lanes:
    """Both lanes of a window that begins at ``low`` (ns)."""

    def __init__(self, timeline: Timeline, linked: Launches, low: int, high: int) -> None:
        device = timeline.device
        inside = (device.start >= low) & (device.start < high)
        sent = collective_kernels(timeline)
        rows = [np.flatnonzero(inside & ~sent), np.flatnonzero(inside & sent)]
        start = [device.start[lane_rows] for lane_rows in rows]
        reach = [np.maximum.accumulate(device.end[lane_rows]) for lane_rows in rows]
        number = [np.arange(len(lane_rows)) for lane_rows in rows]
        ended = [
            [np.searchsorted(reach[other], start[lane], side="right") for other in (WORK, SENT)]
            for lane in (WORK, SENT)
        ]
        data = _launched_before(timeline, linked, rows)
        data = np.minimum(data, np.searchsorted(start[WORK], start[SENT], side="left"))
        waits_for_sent = _end_times(reach[SENT], ended[WORK][SENT], low) > _end_times(
            reach[WORK], number[WORK], low
        )
        own = number[WORK], np.minimum(ended[SENT][SENT], number[SENT])
        other = np.where(waits_for_sent, ended[WORK][SENT], 0), np.minimum(ended[SENT][WORK], data)
        self.low = low
        lanes = []
        for lane in (WORK, SENT):
            theirs = _end_times(reach[1 - lane], other[lane], low)
            before = np.maximum(_end_times(reach[lane], own[lane], low), theirs)
            pieces = _make_pieces(timeline, linked, rows[lane], before, low)
            lanes.append(Lane(rows[lane], *pieces, reach[lane], own[lane], other[lane]))
        self.lanes = lanes[WORK], lanes[SENT]
        joins = np.flatnonzero(other[WORK])
        self.stops = np.unique(np.concatenate([joins, other[SENT], [len(rows[WORK])]]))

    def ended_pieces(self, times: I64) -> tuple[I64, I64]:
        """Return how many pieces of each lane had ended at some moments."""
        work, sent = (np.searchsorted(lane.reach, times, side="right") for lane in self.lanes)
        return work, sent

    def ended_at(self, ended: tuple[I64, I64]) -> I64:
        """Return when those numbers of pieces had ended."""
        work, sent = (
            _end_times(lane.reach, count, self.low)
            for lane, count in zip(self.lanes, ended, strict=True)
        )
        return np.maximum(work, sent)


def _end_times(reach: I64, count: I64, low: int) -> I64:
    return np.concatenate([[low], reach])[count].astype(np.int64)


def _launched_before(timeline: Timeline, linked: Launches, rows: list[I64]) -> I64:
    """How much work was launched before each collective, which waits for no later one."""
    first, last = 0, np.iinfo(np.int64).max  # where that was not recorded
    work = pick_rows(timeline.host.start, linked.call[rows[WORK]], first)
    sent = pick_rows(timeline.host.start, linked.call[rows[SENT]], last)
    return np.searchsorted(np.maximum.accumulate(work), sent, side="right")


def _make_pieces(
    timeline: Timeline, linked: Launches, rows: I64, before: I64, low: int
) -> tuple[I64, F64, F64, F64]:
    """When each was called and arrives, its time, and the gap before it without a reason."""
    device, host = timeline.device, timeline.host
    start, end, call = device.start[rows], device.end[rows], linked.call[rows]
    called = pick_rows(host.start, call, low)
    issued = np.minimum(pick_rows(host.end, call, low), called + round(2 * CALL_NS))
    queued = (call < 0) | (issued <= before)
    delay = start - called
    usual = np.percentile(delay[~queued], 10) if (~queued).any() else 2 * CALL_NS
    delay = np.where(queued, np.minimum(delay, usual), delay)
    arrives = np.where(queued, np.minimum(called + delay, before), called + delay).astype(float)
    work = np.maximum(end - np.maximum(start, before), 0).astype(float)
    return called, arrives, work, np.where(queued, np.maximum(start - before, 0), 0).astype(float)
