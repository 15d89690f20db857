"""How long the recorded steps would have taken, had the host spent less time: a replay.

The host is one line of time that launches work and sometimes waits; the device is one queue that
starts each piece of work when its launch has arrived and the work before it is done. Both run
again with less host time, and waits take what then is left of them. Without a change the replay
gives the recorded times exactly, so a ratio of two replays is a prediction from this run's own
numbers. The replayed equations are those of max-plus scheduling, as in Daydream (Zhu et al., 2020)
and in the single-rank critical path of Holistic Trace Analysis; ours has one device queue.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import among
from whyidle.analysis.gaps import Launches, picked
from whyidle.analysis.intervals import Intervals, union
from whyidle.model.timeline import Timeline

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Saved = Callable[[I64], F64]
"""host time (ns) that no longer passes before each of some recorded moments"""

WORTH_WAITING = 1e-4
"""waits shorter than this share of the window keep their recorded length"""
CALL_NS = 5_000.0
"""what a call costs that no longer waits"""


def nothing(times: I64) -> F64:
    """No change."""
    return np.zeros(len(times))


def added(*changes: Saved) -> Saved:
    """Several changes at once; they must not save the same time twice."""
    return lambda times: np.sum([change(times) for change in changes], axis=0)


class _Queue:
    """Device work in order, each piece with its cost in ns."""

    def __init__(self, cost: F64) -> None:
        self._total = np.cumsum(cost)
        self._before = self._total - cost

    def drain(self, since: float, arrives: F64, chunk: slice) -> float:
        """When a chunk of work is done: ``f_i = max(arrives_i, f_(i-1)) + cost_i``, unrolled."""
        if not len(arrives):
            return since
        before = self._before[chunk] - self._before[chunk.start]
        whole = self._total[chunk.stop - 1] - self._before[chunk.start]
        return max(since, float(np.max(arrives - before))) + float(whole)


class Replay:
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
        self._read_device(timeline, linked, high)
        self._read_waits(timeline, waits, np.empty(0, np.int64) if fixed is None else fixed, high)
        host = timeline.host
        mine = among(host.thread, drivers) & (host.start >= self._low) & (host.end <= high)
        self._host_end = int(host.end[mine].max(initial=self._low))
        self.base_ns = self.run()

    def _read_device(self, timeline: Timeline, linked: Launches, high: int) -> None:
        device, host = timeline.device, timeline.host
        rows = np.flatnonzero((device.start >= self._low) & (device.start < high))
        start, end, call = device.start[rows], device.end[rows], linked.call[rows]
        reach = np.maximum.accumulate(end) if len(rows) else end
        before = np.concatenate([[self._low], reach[:-1]])[: len(rows)]
        known = call >= 0
        self._called = picked(host.start, call, self._low)
        issued = np.minimum(picked(host.end, call, self._low), self._called + round(2 * CALL_NS))
        queued = ~known | (issued <= before)
        delay = start - self._called
        usual = np.percentile(delay[~queued], 10) if (~queued).any() else 2 * CALL_NS
        delay = np.where(queued, np.minimum(delay, usual), delay)
        self._arrives = np.where(
            queued, np.minimum(self._called + delay, before), self._called + delay
        )
        own_gap = np.where(queued, np.maximum(start - before, 0), 0)
        self._work = np.maximum(end - np.maximum(start, before), 0).astype(float)
        self._gap, self._rows = own_gap.astype(float), rows
        self._reach = reach

    def _read_waits(self, timeline: Timeline, waits: I64, fixed: I64, high: int) -> None:
        host = timeline.host
        rows = np.union1d(waits, fixed)
        # a wait that the window begins in counts from there: what it waits for may be in the window
        rows = rows[(host.end[rows] > self._low) & (host.end[rows] <= high)]
        rows = rows[np.argsort(host.start[rows], kind="stable")]
        begin, end = np.maximum(host.start[rows], self._low), host.end[rows]
        last = np.searchsorted(self._reach, end, side="right") - 1
        until = self._reach[np.maximum(last, 0)] if len(self._reach) else begin
        given = np.isin(rows, fixed)
        until = np.where(given, begin, until)
        blocked = np.where(given, end - begin, np.where(last >= 0, until - begin, 0))
        outer = np.concatenate([[True], begin[1:] >= np.maximum.accumulate(end)[:-1]])[: len(rows)]
        keep = outer & (blocked > WORTH_WAITING * (high - self._low))
        self._rows_held, self._last, self._given = rows[keep], last[keep], given[keep]
        self.waits = self._rows_held[~self._given]
        self._begin, self._until, self._end = begin[keep], until[keep], end[keep]
        self.waiting = union(self._begin, self._until)

    def less(self, parts: Intervals, ratio: float) -> Saved:
        """Spend only ``1 - ratio`` of some host time. Waiting is no work and not shortened."""
        working = parts - self.waiting
        return lambda times: working.before(times) * np.float64(ratio)

    def less_each(self, starts: I64, cost_ns: float) -> Saved:
        """Every one of some host events (sorted starts) takes ``cost_ns`` less."""
        return lambda times: np.searchsorted(starts, times, side="left") * np.float64(cost_ns)

    def run(
        self,
        saved: Saved = nothing,
        *,
        without: I64 | None = None,
        factor: F64 | None = None,
        fewer: bool = False,
    ) -> float:
        """The window's length in ns with some host time saved, ``without`` some waits (rows of the
        host's events), and with device events that take ``factor`` times as long (one factor per
        event of the timeline's device). With ``fewer`` these are also fewer, so that the short
        gaps before them shrink alike."""
        ratio = 1.0 if factor is None else factor[self._rows]
        cost = self._work * ratio + self._gap * (ratio if fewer else 1.0)
        queue = _Queue(cost)
        arrives = self._arrives - saved(self._called)
        begin, end = self._begin - saved(self._begin), self._end - saved(self._end)
        own = np.maximum(end - (self._until - saved(self._until)), 0.0)
        dropped = np.isin(self._rows_held, [] if without is None else without)
        passed = np.searchsorted(self._begin, self._called, side="left")
        earlier = np.zeros(len(self._last) + 1)  # how much earlier the host is after each wait
        device, done = float(self._low), 0
        for k, last in enumerate(self._last):
            if last + 1 > done:
                chunk = slice(done, int(last) + 1)
                ready = arrives[chunk] - earlier[np.minimum(passed[chunk], k)]
                device, done = queue.drain(device, ready, chunk), int(last) + 1
            at = begin[k] - earlier[k]
            if self._given[k]:
                after = max(at + CALL_NS, float(self._end[k]))
            else:
                after = at + min(own[k], CALL_NS) if dropped[k] else max(at, device) + own[k]
            earlier[k + 1] = end[k] - after
        chunk = slice(done, len(arrives))
        device = queue.drain(device, arrives[chunk] - earlier[passed[chunk]], chunk)
        host = self._host_end - float(saved(np.array([self._host_end]))[0]) - earlier[-1]
        return float(max(device, host) - self._low)
