"""Replay of the recorded steps with less host time. The host is one sequence that launches work and
sometimes waits; the device is one queue of work and one of collectives (``device_lanes``). Waits
shrink with the host's time. Without a change the replay gives the recorded times exactly, so a
ratio of two replays is a prediction from the run's own numbers. The equations are those of max-plus
scheduling, as in Daydream (Zhu et al., 2020) and in Holistic Trace Analysis's critical path.

The order in which a replay computes: stretches of work, collectives and waits of the host, each
after what it depends on. The order is the same for every change of the times, so it is made once.
A replay then takes one operation per stretch, not per kernel: within a stretch,
``f_i = max(arrives_i, f_(i-1)) + cost_i`` has a closed form, whose maxima are taken at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.device_lanes import CALL_NS, SENT, WORK, Lanes
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.idle_gaps import Launches
from whyidle.model.timeline import Timeline

_WHOLE, _SEND, _JOIN, _ARRIVAL, _STRETCH, _WAIT = range(6)
Operation = tuple[int, int, int]


class HostWait(NamedTuple):
    """One wait of the host: begin and end with host time saved, what it takes when the device is
    ready, its recorded end, all ns; whether it is for another process; whether it is dropped."""

    begin: float
    end: float
    own_time: float
    recorded_end: float
    given: bool
    dropped: bool

    def lead_after(self, lead: float, device: float) -> float:
        """Return how much earlier the host ends it, ``lead`` earlier before it, when the device is
        ready at ``device``, ns."""
        moment = self.begin - lead
        if self.given:
            return self.end - max(moment + CALL_NS, self.recorded_end)
        if self.dropped:
            return self.end - moment - min(self.own_time, CALL_NS)
        return self.end - max(moment, device) - self.own_time


class ReplayEnd(NamedTuple):
    """When the device is done, and how much earlier the host is after its last wait, ns."""

    device: float
    host_lead: float


class Schedule:
    """The order for the lanes and for waits of the host: ``begin`` is when these begin, ns, and
    ``ended`` how many pieces of each lane each of them awaits."""

    def __init__(self, lanes: Lanes, begin: I64, ended: I64) -> None:
        work, sent = lanes.lanes
        self._low, self._waits = float(lanes.low), len(begin)
        operations, first, work_wait, sent_wait = _order_operations(lanes, ended)
        self._first = np.array(first, dtype=np.int64)
        bounds = np.append(self._first, len(work.rows))
        self._length = np.diff(bounds)
        # what each collective waits for: a number of stretches, and of earlier collectives
        self._data = np.searchsorted(bounds, sent.other).tolist()
        self._line = sent.own.tolist()
        passed = [np.searchsorted(begin, lane.called, side="left") for lane in (work, sent)]
        self._sent_passed = np.minimum(passed[SENT], np.array(sent_wait, dtype=np.int64)).tolist()
        waits = np.repeat(np.array(work_wait, dtype=np.int64), self._length)
        groups = self._group_arrivals(np.minimum(passed[WORK], waits))
        self._operations = list(_insert_arrivals(operations, groups))
        self._known: dict[object, ReplayEnd] = {}

    def _group_arrivals(self, passed: I64) -> list[int]:
        """Group the pieces of each stretch by the waits that the host has passed before them.
        Return where the groups of each stretch begin."""
        stretch = np.repeat(np.arange(len(self._length)), self._length)
        order = np.lexsort((passed, stretch))
        self._sorting = None if (np.diff(order) > 0).all() else order
        passed, stretch = passed[order], stretch[order]
        changes = (np.diff(passed, prepend=-1) != 0) | (np.diff(stretch, prepend=-1) != 0)
        self._groups = np.flatnonzero(changes)
        self._passed = passed[self._groups].tolist()
        groups: list[int] = np.searchsorted(
            stretch[self._groups], np.arange(len(self._length) + 1)
        ).tolist()
        return groups

    def run(
        self, arrives: Sequence[F64], costs: Sequence[F64], waits: Sequence[HostWait]
    ) -> ReplayEnd:
        """Replay with other times: when the pieces of each lane arrive and what they take, ns.
        Several causes ask for the same times, which are replayed once."""
        key = (*(hash(times.tobytes()) for times in (*arrives, *costs)), hash(tuple(waits)))
        if key not in self._known:
            self._known[key] = self._replay(arrives, costs, waits)
        return self._known[key]

    def _replay(
        self, arrives: Sequence[F64], costs: Sequence[F64], waits: Sequence[HostWait]
    ) -> ReplayEnd:
        latest, length = self._reduce_stretches(arrives[WORK], costs[WORK])
        called, cost = arrives[SENT].tolist(), costs[SENT].tolist()
        passed, sent_passed, data, line = self._passed, self._sent_passed, self._data, self._line
        free = self._low
        done, arrived = [free], [free]  # when stretches and collectives end
        lead = [0.0] * (self._waits + 1)
        # conditions in place of max(), which would take half of the time
        for kind, one, two in self._operations:
            if kind == _WHOLE:
                latest_here = latest[one] - lead[passed[one]]
                free = (latest_here if latest_here > free else free) + length[two]
                done.append(free)
            elif kind == _SEND:
                begin = called[one] - lead[sent_passed[one]]
                work_done, line_free = done[data[one]], arrived[line[one]]
                begin = work_done if work_done > begin else begin
                begin = (line_free if line_free > begin else begin) + cost[one]
                arrived.append(begin if begin > arrived[-1] else arrived[-1])
            elif kind == _JOIN:
                free = arrived[one] if arrived[one] > free else free
            elif kind == _ARRIVAL:
                latest_here = latest[one] - lead[passed[one]]
                free = latest_here if latest_here > free else free
            elif kind == _STRETCH:
                free += length[one]
                done.append(free)
            else:
                device = max(free, arrived[two])
                lead[one + 1] = waits[one].lead_after(lead[one], device)
        return ReplayEnd(max(free, arrived[-1]), lead[-1])

    def _reduce_stretches(self, arrives: F64, cost: F64) -> tuple[list[float], list[float]]:
        """The latest arrival of each group less the work before it, and each stretch's length."""
        if not len(cost):
            return [], []
        total = np.cumsum(cost)
        before = total - cost
        start = before[self._first]
        latest = arrives - (before - np.repeat(start, self._length))
        latest = latest if self._sorting is None else latest[self._sorting]
        length = total[self._first + self._length - 1] - start
        return np.maximum.reduceat(latest, self._groups).tolist(), length.tolist()


def _order_operations(
    lanes: Lanes, ended: I64
) -> tuple[list[Operation], list[int], list[int], list[int]]:
    """Operations in order, the first piece of each stretch, and how many waits come before each
    stretch and before each collective."""
    work, sent = lanes.lanes
    awaited, stops = work.other.tolist(), lanes.stops.tolist()
    operations: list[Operation] = []
    first: list[int] = []
    work_wait: list[int] = []
    sent_wait: list[int] = []
    done = stop = 0
    targets = [*ended.tolist(), [len(work.rows), len(sent.rows)]]

    def send_collectives(count: int) -> None:
        operations.extend((_SEND, number, 0) for number in range(len(sent_wait), count))
        sent_wait.extend([wait] * (count - len(sent_wait)))

    for wait, (works, sends) in enumerate(targets):
        while done < works:
            if awaited[done]:
                send_collectives(awaited[done])
                operations.append((_JOIN, awaited[done], 0))
            while stops[stop] <= done:
                stop += 1
            operations.append((_STRETCH, len(first), 0))
            first.append(done)
            work_wait.append(wait)
            done = min(works, stops[stop])
        send_collectives(sends)
        if wait < len(ended):
            operations.append((_WAIT, wait, sends))
    return operations, first, work_wait, sent_wait


def _insert_arrivals(operations: list[Operation], groups: list[int]) -> Iterator[Operation]:
    """The operations with those of the arrivals before each stretch, in one where there is one."""
    for operation in operations:
        stretch = operation[1]
        if operation[0] != _STRETCH:
            yield operation
        elif groups[stretch + 1] - groups[stretch] == 1:
            yield _WHOLE, groups[stretch], stretch
        else:
            yield from ((_ARRIVAL, number, 0) for number in range(*groups[stretch : stretch + 2]))
            yield operation


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
