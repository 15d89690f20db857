"""Replay of the recorded steps with less host time. The host is one sequence that launches work and
sometimes waits; the device is one queue of work and one of collectives (``device_lanes``). Waits
shrink with the host's time. Without a change the replay gives the recorded times exactly, so a
ratio of two replays is a prediction from the run's own numbers. The equations are those of max-plus
scheduling, as in Daydream (Zhu et al., 2020) and in Holistic Trace Analysis's critical path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.device_lanes import Lanes
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.idle_gaps import Launches
from whyidle.analysis.steps.replay_schedule import HostWait, Schedule
from whyidle.model.timeline import Timeline

Saved = Callable[[I64], F64]
"""host time (ns) saved before each of some recorded moments"""

WORTH_WAITING = 1e-4
"""waits shorter than this share of the window keep their recorded length"""


def no_change(times: I64) -> F64:
    """Save nothing."""
    return np.zeros(len(times))


def combine_changes(*changes: Saved) -> Saved:
    """Combine several changes, which must not save the same time twice."""
    return lambda times: np.sum([change(times) for change in changes], axis=0)


class StepReplay:
    """One rank's ``window`` (start and end, ns), ready to run again. Host calls in ``waits`` may
    wait for the device; ``drivers`` are the threads that launch. Host events in ``fixed`` end when
    another process is ready, such as a loader worker, and wait longer if they begin earlier."""

    def __init__(
        self,
        timeline: Timeline,
        linked: Launches,
        waits: I64,
        drivers: NDArray[np.int16],
        window: tuple[int, int],
        *,
        fixed: I64 | None = None,
    ) -> None:
        self._low, high = window
        self._device = Lanes(timeline, linked, self._low, high)
        self._read_waits(timeline, waits, np.empty(0, np.int64) if fixed is None else fixed, high)
        host = timeline.host
        driving = is_among(host.thread, drivers) & (host.start >= self._low) & (host.end <= high)
        self._host_end = int(host.end[driving].max(initial=self._low))
        self.base_ns = self.replayed_length()

    def _read_waits(self, timeline: Timeline, waits: I64, fixed: I64, high: int) -> None:
        host = timeline.host
        rows = np.union1d(waits, fixed)
        # a wait that began before the window counts from there, as its work may be inside
        rows = rows[(host.end[rows] > self._low) & (host.end[rows] <= high)]
        rows = rows[np.argsort(host.start[rows], kind="stable")]
        begin, end = np.maximum(host.start[rows], self._low), host.end[rows]
        ended = self._device.ended_pieces(end)
        is_fixed = np.isin(rows, fixed)
        until = np.where(is_fixed, begin, self._device.ended_at(ended))
        blocked = np.where(is_fixed, end - begin, until - begin)
        is_outer = np.concatenate([[True], begin[1:] >= np.maximum.accumulate(end)[:-1]])[
            : len(rows)
        ]
        keep = is_outer & (blocked > WORTH_WAITING * (high - self._low))
        self._rows_held, self._given = rows[keep], is_fixed[keep]
        self.waits = self._rows_held[~self._given]
        self._begin, self._until, self._end = begin[keep], until[keep], end[keep]
        self.waiting = union_of(self._begin, self._until)
        self._schedule = Schedule(self._device, self._begin, np.stack(ended, axis=1)[keep])

    def reduce_host_time(self, parts: Intervals, ratio: float) -> Saved:
        """Spend only ``1 - ratio`` of some host time. Waiting is not shortened."""
        working = parts - self.waiting
        return lambda times: working.length_before(times) * np.float64(ratio)

    def less_each(self, starts: I64, cost_ns: float) -> Saved:
        """Shorten each of some host events (sorted starts) by ``cost_ns``."""
        return lambda times: np.searchsorted(starts, times, side="left") * np.float64(cost_ns)

    def replayed_length(
        self,
        saved: Saved = no_change,
        *,
        without: I64 | None = None,
        factor: F64 | None = None,
        fewer: bool = False,
    ) -> float:
        """Return the window's length in ns with host time ``saved``, ``without`` some waits (host
        rows), and device events ``factor`` times as long; with ``fewer`` of these the short gaps
        before them shrink, too."""
        lanes = self._device.lanes
        length = self._schedule.run(
            arrives=[lane.arrives - saved(lane.called) for lane in lanes],
            costs=[lane.piece_costs(factor, fewer=fewer) for lane in lanes],
            waits=self._changed_waits(saved, [] if without is None else without),
        )
        host = self._host_end - float(saved(np.array([self._host_end]))[0]) - length.host_lead
        return float(max(length.device, host) - self._low)

    def _changed_waits(self, saved: Saved, without: I64 | list[int]) -> list[HostWait]:
        begin, end = self._begin - saved(self._begin), self._end - saved(self._end)
        own_time = np.maximum(end - (self._until - saved(self._until)), 0.0)
        dropped = np.isin(self._rows_held, without)
        columns = begin, end, own_time, self._end, self._given, dropped
        return [HostWait(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
