"""How often gradients are exchanged between two steps of the optimizer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.facts import Facts

FULL = 0.5
"""an exchange of at least half of the largest one's calls is one of all gradients"""


class Rhythm(NamedTuple):
    """Exchanges of gradients per optimizer step (median), all exchanges, calls per exchange."""

    per_update: int
    exchanges: int
    calls: float


def needed(facts: Facts) -> float:
    """The part of the exchanges (0-1] that gradient accumulation needs: the last of each optimizer
    step; all of them where the recording does not tell."""
    rhythm = rhythm_of(facts)
    return 1.0 if rhythm is None else 1.0 / max(rhythm.per_update, 1)


def rhythm_of(facts: Facts) -> Rhythm | None:
    """How often gradients are exchanged; None where forward passes, optimizer steps or all-reduces
    are not recorded."""
    host = facts.timeline.host
    forwards = host.start[facts.named(r"^DistributedDataParallel\.forward$")]
    if not len(forwards):  # a watched run records backward passes
        forwards = host.start[facts.named(r"^whyidle::backward$")]
    updates = _updates(facts)
    calls = np.sort(host.start[facts.named(r"^c10d::allreduce_|^(nccl|gloo):all_?reduce$")])
    if len(forwards) < 2 or len(updates) < 2 or not len(calls):
        return None
    edges = np.append(np.sort(forwards), np.iinfo(np.int64).max)
    made = np.diff(np.searchsorted(calls, edges))
    full = edges[:-1][made >= max(FULL * made.max(), 1)]
    between = np.diff(np.searchsorted(full, updates))
    return Rhythm(int(np.median(between)), len(full), float(np.median(made[made > 0])))


def _updates(facts: Facts) -> np.ndarray:
    """Starts of the steps of the busiest optimizer: one of several names stands for all."""
    host = facts.timeline.host
    rows = facts.named(r"^Optimizer\.step#")
    if not len(rows):
        return np.empty(0, np.int64)
    names, counts = np.unique(host.name[rows], return_counts=True)
    return np.sort(host.start[rows[host.name[rows] == names[counts.argmax()]]])
