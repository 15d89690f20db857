"""Processes that somebody stops again and again: with signals, a debugger, or a batch system that
suspends one job for another. What reads the system tells a process's state at each read; a stopped
one neither runs, nor wants a core, nor waits for anything, and all its threads stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.outside import Outside
from whyidle.analysis.scoped import Scoped

STOPPED = 5
"""how the state of a stopped process is written"""
LEAST_READS, LEAST_STOPS = 3, 2
"""reads that find a process stopped, and stops that they tell of: somebody may have put it into the
background once, or attached a debugger"""


@dataclass(frozen=True, slots=True)
class Stops:
    """The share of the time (0-1) that processes were found stopped, between two ends that are two
    standard errors of so many reads apart from it."""

    low: float
    share: float
    high: float
    reads: int


NONE = Stops(0.0, 0.0, 0.0, 0)


def stops(outside: Outside | None, pids: Iterable[int]) -> Stops:
    """How much of the time some processes were stopped, on average."""
    if outside is None:
        return NONE
    reads = [outside.reads("state", f"pid{pid}") for pid in pids]
    seen = np.concatenate([np.empty(0), *reads]) == STOPPED
    if seen.sum() < LEAST_READS or max(map(_often, reads)) < LEAST_STOPS:
        return NONE
    share = float(seen.mean())
    error = 2.0 * float(np.sqrt(share * (1.0 - share) / len(seen)))
    return Stops(max(0.0, share - error), share, min(1.0, share + error), len(seen))


def _often(states: NDArray[np.float64]) -> int:
    """How often a process was stopped anew, as far as its reads tell."""
    stopped = states == STOPPED
    return int(stopped[:1].sum() + (stopped[1:] & ~stopped[:-1]).sum())


@dataclass(frozen=True, slots=True)
class Held:
    """The rank that is stopped for longest, and by how much longer than any other."""

    index: int
    stops: Stops
    beyond: float


def held(ranks: Sequence[Scoped]) -> Held | None:
    """None where no rank was found stopped, or one machine does not tell of its ranks."""
    found = []
    for facts in ranks:
        pid = facts.timeline.settings.get("pid")
        if pid is None or facts.outside is None:
            return None
        if not len(facts.outside.reads("state", f"pid{pid}")):
            return None
        found.append(stops(facts.outside, [int(pid)]))
    index = max(range(len(found)), key=lambda i: found[i].share)
    others = max((each.share for i, each in enumerate(found) if i != index), default=0.0)
    beyond = found[index].share - others
    return Held(index, found[index], beyond) if beyond > 0.0 else None
