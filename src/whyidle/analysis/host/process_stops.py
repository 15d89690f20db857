"""Processes that are stopped repeatedly, by signals, a debugger, or a batch system that suspends
one job for another. Telemetry reads the process state: a stopped process neither runs, nor wants a
core, nor waits for anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from whyidle.analysis.arrays import F64
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role
from whyidle.model.timeline import CpuPace

STOPPED = 5
"""code of a stopped process's state"""
LEAST_READS, LEAST_STOPS = 3, 2
"""least reads and separate stops; one stop may be a debugger or a background job"""
CONFIRMED = 2
"""sufficient reads if the process's own thread slept unexplained for as long"""
WAITS = ("loader", "preprocess", "checkpoint", "evaluation", "logging")
"""calls that make a thread sleep; samples that find it asleep elsewhere may show a stop"""
LEAST = 8
"""least rounds"""


@dataclass(frozen=True, slots=True)
class ProcessStops:
    """Share of the time (0-1) that processes were stopped, with two standard errors."""

    low: float
    share: float
    high: float
    reads: int
    found: float = 0.0
    """the share of the reads"""
    slept: float | None = None
    """the share by the thread's own records, which ``share`` then is"""


NONE = ProcessStops(0.0, 0.0, 0.0, 0)


def find_stops(
    outside: TelemetryWindow | None, pids: Iterable[int], least: int = LEAST_READS
) -> ProcessStops:
    """Return how much of the time processes were stopped, by at least ``least`` reads."""
    if outside is None:
        return NONE
    reads = [outside.values_read("state", f"pid{pid}") for pid in pids]
    stopped = np.concatenate([np.empty(0), *reads]) == STOPPED
    if stopped.sum() < least or max(map(_stop_count, reads)) < LEAST_STOPS:
        return NONE
    share = float(stopped.mean())
    error = 2.0 * float(np.sqrt(share * (1.0 - share) / len(stopped)))
    return ProcessStops(
        max(0.0, share - error), share, min(1.0, share + error), len(stopped), share
    )


def _stop_count(states: F64) -> int:
    stopped = states == STOPPED
    return int(stopped[:1].sum() + (stopped[1:] & ~stopped[:-1]).sum())


@dataclass(frozen=True, slots=True)
class StoppedRank:
    """The rank stopped for longest, and by how much longer than any other."""

    index: int
    stops: ProcessStops
    beyond: float

    @property
    def longest_stop(self) -> float:
        """``beyond``, at the upper end of the error."""
        return self.beyond + self.stops.high - self.stops.share


def confirm_stops(
    reads: ProcessStops, own: UnexplainedSleep | None, others: Sequence[UnexplainedSleep | None]
) -> ProcessStops | None:
    """Refine few reads by the thread's excess sleep, which covers every moment. None if the two
    disagree, as it may sleep for another reason."""
    known = [sleep.share for sleep in others if sleep is not None]
    if own is None or not known or len(known) < len(others):
        return None
    low, share, high = (max(0.0, sleep - max(known)) for sleep in own)
    if low <= 0.0 or not reads.low <= share <= reads.high:
        return None
    return replace(
        reads, low=min(low, reads.share), share=share, high=max(high, reads.share), slept=share
    )


def find_stopped_rank(ranks: Sequence[StepScope]) -> StoppedRank | None:
    """Return the stopped rank; None if there is none or ranks lack telemetry of one machine."""
    stops, slept = [], [find_unexplained_sleep(facts) for facts in ranks]
    for index, facts in enumerate(ranks):
        pid = facts.timeline.process.pid
        if pid is None or facts.telemetry is None:
            return None
        if not len(facts.telemetry.values_read("state", f"pid{pid}")):
            return None
        confirmed, usual = (find_stops(facts.telemetry, [pid], n) for n in (CONFIRMED, LEAST_READS))
        other_sleeps = [*slept[:index], *slept[index + 1 :]]
        stops.append(confirm_stops(confirmed, slept[index], other_sleeps) or usual)
    index = max(range(len(stops)), key=lambda i: stops[i].share)
    others = max((other.share for i, other in enumerate(stops) if i != index), default=0.0)
    beyond = stops[index].share - others
    return StoppedRank(index, stops[index], beyond) if beyond > 0.0 else None


class UnexplainedSleep(NamedTuple):
    """Share (0-1) of the otherwise explained time that the thread slept, and its error."""

    low: float
    share: float
    high: float


def find_unexplained_sleep(facts: StepScope) -> UnexplainedSleep | None:
    """Return the thread's unexplained sleep; None with too few recorded rounds."""
    pace = facts.timeline.pace
    if pace is None or len(pace.time) <= LEAST:
        return None
    slept, total = _sleep_by_round(facts, pace)
    if len(slept) < LEAST or total.sum() <= 0:
        return None
    share = float(slept.sum() / total.sum())
    error = 2.0 * float(slept.std()) / len(slept) ** 0.5 / float(total.mean())
    low, share, high = (
        min(max(value, 0.0), 1.0) for value in (share - error, share, share + error)
    )
    return UnexplainedSleep(low, share, high)


def _sleep_by_round(facts: StepScope, pace: CpuPace) -> tuple[F64, F64]:
    host, end = facts.timeline.host, pace.time
    calls = facts.timeline.rows_of(Role.COLLECTIVE_FLIGHT)
    calls = calls[np.argsort(host.end[calls])]
    passes = facts.rows_of(Role.BACKWARD)
    begins, order = host.start[passes], np.argsort(host.start[passes])
    if not len(passes) or not len(calls):
        return np.empty(0), np.empty(0)
    begin = begins[order][np.maximum(np.searchsorted(begins[order], end) - 1, 0)]
    row = calls[np.minimum(np.searchsorted(host.end[calls], end), len(calls) - 1)]
    inside = facts.scope.contains_times(end)
    known = inside[:-1] & inside[1:] & (host.end[row] == end)[1:] & (begin[1:] > end[:-1])
    known &= begin[1:] < end[1:]
    waited = facts.time_of(*WAITS).length_inside(end[:-1], begin[1:])
    awake = np.diff(pace.ran) + np.diff(pace.queued) + (host.end - host.start)[row][1:]
    slept = np.maximum(np.diff(end) - awake - waited, 0)
    total = begin[1:] - end[:-1] - waited
    return slept[known].astype(np.float64), total[known].astype(np.float64)
