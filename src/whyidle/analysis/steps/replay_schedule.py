"""The order in which a replay computes: stretches of work, collectives and waits of the host, each
after what it depends on. The order is the same for every change of the times, so it is made once.
A replay then takes one operation per stretch, not per kernel: within a stretch,
``f_i = max(arrives_i, f_(i-1)) + cost_i`` has a closed form, whose maxima are taken at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.device_lanes import CALL_NS, SENT, WORK, Lanes

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
