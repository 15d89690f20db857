"""How long the recorded steps would have taken, had the host spent less time: a replay.

The host is one line of time that launches work and sometimes waits; the device is one queue that
starts each piece of work when its launch has arrived and the work before it is done, and another
one of collectives (``lanes``). Both run again with less host time, and waits take what then is left
of them. Without a change the replay gives the recorded times exactly, so a ratio of two replays is
a prediction from this run's own numbers. The replayed equations are those of max-plus scheduling,
as in Daydream (Zhu et al., 2020) and in the single-rank critical path of Holistic Trace Analysis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among
from whyidle.analysis.device_lanes import CALL_NS, LaneRun, Lanes
from whyidle.analysis.idle_gaps import Launches
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.timeline import Timeline

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Saved = Callable[[I64], F64]
"""host time (ns) that no longer passes before each of some recorded moments"""

WORTH_WAITING = 1e-4
"""waits shorter than this share of the window keep their recorded length"""


def no_change(times: I64) -> F64:
    """No change."""
    return np.zeros(len(times))


def combine_changes(*changes: Saved) -> Saved:
    """Several changes at once; they must not save the same time twice."""
    return lambda times: np.sum([change(times) for change in changes], axis=0)


class StepReplay:
    """One rank's window of time, ready to run again.

    Args:
        timeline: the recording.
        linked: which host call launched which device event.
        waits: rows of host calls that may wait for the device.
        drivers: the threads that launch.
        window: its start and end, ns.
        fixed: rows of host events that end when another process is ready, such as a loader's
            worker: whoever comes earlier waits longer.
    """

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
        mine = is_among(host.thread, drivers) & (host.start >= self._low) & (host.end <= high)
        self._host_end = int(host.end[mine].max(initial=self._low))
        self.base_ns = self.replayed_length()

    def _read_waits(self, timeline: Timeline, waits: I64, fixed: I64, high: int) -> None:
        host = timeline.host
        rows = np.union1d(waits, fixed)
        # a wait that the window begins in counts from there: what it waits for may be in the window
        rows = rows[(host.end[rows] > self._low) & (host.end[rows] <= high)]
        rows = rows[np.argsort(host.start[rows], kind="stable")]
        begin, end = np.maximum(host.start[rows], self._low), host.end[rows]
        ended = self._device.ended_pieces(end)
        given = np.isin(rows, fixed)
        until = np.where(given, begin, self._device.ended_at(ended))
        blocked = np.where(given, end - begin, until - begin)
        outer = np.concatenate([[True], begin[1:] >= np.maximum.accumulate(end)[:-1]])[: len(rows)]
        keep = outer & (blocked > WORTH_WAITING * (high - self._low))
        self._rows_held, self._given = rows[keep], given[keep]
        self._ended = np.stack(ended, axis=1)[keep]
        self.waits = self._rows_held[~self._given]
        self._begin, self._until, self._end = begin[keep], until[keep], end[keep]
        self.waiting = union_of(self._begin, self._until)

    def reduce_host_time(self, parts: Intervals, ratio: float) -> Saved:
        """Spend only ``1 - ratio`` of some host time. Waiting is no work and not shortened."""
        working = parts - self.waiting
        return lambda times: working.length_before(times) * np.float64(ratio)

    def less_each(self, starts: I64, cost_ns: float) -> Saved:
        """Every one of some host events (sorted starts) takes ``cost_ns`` less."""
        return lambda times: np.searchsorted(starts, times, side="left") * np.float64(cost_ns)

    def replayed_length(
        self,
        saved: Saved = no_change,
        *,
        without: I64 | None = None,
        factor: F64 | None = None,
        fewer: bool = False,
    ) -> float:
        """The window's length in ns with some host time saved, ``without`` some waits (rows of the
        host's events), and with device events that take ``factor`` times as long (one factor per
        event of the timeline's device). With ``fewer`` these are also fewer, so that the short
        gaps before them shrink alike."""
        work, sent = self._device.lanes
        costs = work.piece_costs(factor, fewer=fewer), sent.piece_costs(factor, fewer=fewer)
        running = LaneRun(self._device, costs)
        arrives = [lane.arrives - saved(lane.called) for lane in (work, sent)]
        passed = [np.searchsorted(self._begin, lane.called, side="left") for lane in (work, sent)]
        begin, end = self._begin - saved(self._begin), self._end - saved(self._end)
        own = np.maximum(end - (self._until - saved(self._until)), 0.0)
        dropped = np.isin(self._rows_held, [] if without is None else without)
        waits = len(self._ended)
        earlier = np.zeros(waits + 1)  # how much earlier the host is after each wait
        k = 0

        def ready(lane: int, chunk: slice) -> F64:
            found: F64 = arrives[lane][chunk] - earlier[np.minimum(passed[lane][chunk], k)]
            return found

        for k in range(waits):
            done, met = self._ended[k].tolist()
            device = running.advance_to(done, met, ready)
            at = begin[k] - earlier[k]
            if self._given[k]:
                after = max(at + CALL_NS, float(self._end[k]))
            else:
                after = at + min(own[k], CALL_NS) if dropped[k] else max(at, device) + own[k]
            earlier[k + 1] = end[k] - after
        k = waits
        device = running.advance_to(len(work.rows), len(sent.rows), ready)
        host = self._host_end - float(saved(np.array([self._host_end]))[0]) - earlier[-1]
        return float(max(device, host) - self._low)
