"""Processes that somebody stops again and again: with signals, a debugger, or a batch system that
suspends one job for another. What reads the system tells a process's state at each read; a stopped
one neither runs, nor wants a core, nor waits for anything, and all its threads stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.step_scope import StepScope
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.analysis.unexplained_sleep import UnexplainedSleep, find_unexplained_sleep

STOPPED = 5
"""how the state of a stopped process is written"""
LEAST_READS, LEAST_STOPS = 3, 2
"""reads that find a process stopped, and stops that they tell of: somebody may have put it into the
background once, or attached a debugger"""
CONFIRMED = 2
"""reads that do where the process's own thread stood still as often without a reason"""


@dataclass(frozen=True, slots=True)
class ProcessStops:
    """The share of the time (0-1) that processes were found stopped, between two ends that are two
    standard errors of so many reads apart from it."""

    low: float
    share: float
    high: float
    reads: int
    found: float = 0.0
    """the share of the reads"""
    slept: float | None = None
    """the share as the thread's own account tells it, which ``share`` is then"""


NONE = ProcessStops(0.0, 0.0, 0.0, 0)


def find_stops(
    outside: TelemetryWindow | None, pids: Iterable[int], least: int = LEAST_READS
) -> ProcessStops:
    """How much of the time some processes were stopped, on average; of ``least`` such reads on."""
    if outside is None:
        return NONE
    reads = [outside.values_read("state", f"pid{pid}") for pid in pids]
    seen = np.concatenate([np.empty(0), *reads]) == STOPPED
    if seen.sum() < least or max(map(_stop_count, reads)) < LEAST_STOPS:
        return NONE
    share = float(seen.mean())
    error = 2.0 * float(np.sqrt(share * (1.0 - share) / len(seen)))
    return ProcessStops(max(0.0, share - error), share, min(1.0, share + error), len(seen), share)


def _stop_count(states: NDArray[np.float64]) -> int:
    """How often a process was stopped anew, as far as its reads tell."""
    stopped = states == STOPPED
    return int(stopped[:1].sum() + (stopped[1:] & ~stopped[:-1]).sum())


@dataclass(frozen=True, slots=True)
class StoppedRank:
    """The rank that is stopped for longest, and by how much longer than any other."""

    index: int
    stops: ProcessStops
    beyond: float

    @property
    def longest_stop(self) -> float:
        """``beyond``, at the upper end of the error."""
        return self.beyond + self.stops.high - self.stops.share


def confirm_stops(
    found: ProcessStops, own: UnexplainedSleep | None, others: Sequence[UnexplainedSleep | None]
) -> ProcessStops | None:
    """What reads tell, made exact by how long the thread stood still beyond those of the others,
    which accounts for every moment, where reads are few. None where the two do not agree: it may
    have slept for another reason."""
    known = [each.share for each in others if each is not None]
    if own is None or not known or len(known) < len(others):
        return None
    low, share, high = (max(0.0, each - max(known)) for each in own)
    if low <= 0.0 or not found.low <= share <= found.high:
        return None
    return replace(
        found, low=min(low, found.share), share=share, high=max(high, found.share), slept=share
    )


def find_stopped_rank(ranks: Sequence[StepScope]) -> StoppedRank | None:
    """None where no rank was found stopped, or one machine does not tell of its ranks."""
    found, slept = [], [find_unexplained_sleep(facts) for facts in ranks]
    for index, facts in enumerate(ranks):
        pid = facts.timeline.process.pid
        if pid is None or facts.telemetry is None:
            return None
        if not len(facts.telemetry.values_read("state", f"pid{pid}")):
            return None
        few, usual = (find_stops(facts.telemetry, [pid], n) for n in (CONFIRMED, LEAST_READS))
        beside = [*slept[:index], *slept[index + 1 :]]
        found.append(confirm_stops(few, slept[index], beside) or usual)
    index = max(range(len(found)), key=lambda i: found[i].share)
    others = max((each.share for i, each in enumerate(found) if i != index), default=0.0)
    beyond = found[index].share - others
    return StoppedRank(index, found[index], beyond) if beyond > 0.0 else None
