"""Processes that somebody stops again and again: with signals, a debugger, or a batch system that
suspends one job for another. What reads the system tells a process's state at each read; a stopped
one neither runs, nor wants a core, nor waits for anything, and all its threads stand still.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from whyidle.analysis.outside import Outside
from whyidle.analysis.scoped import Scoped

STOPPED = 5
"""how the state of a stopped process is written"""
LEAST_READS = 3
"""a process that was found stopped less often may just have been put into the foreground"""


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
    if seen.sum() < LEAST_READS:
        return NONE
    share = float(seen.mean())
    error = 2.0 * float(np.sqrt(share * (1.0 - share) / len(seen)))
    return Stops(max(0.0, share - error), share, min(1.0, share + error), len(seen))


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
        found.append(stops(facts.outside, [] if pid is None else [int(pid)]))
    index = max(range(len(found)), key=lambda i: found[i].share)
    others = max((each.share for i, each in enumerate(found) if i != index), default=0.0)
    beyond = found[index].share - others
    return Held(index, found[index], beyond) if beyond > 0.0 else None
