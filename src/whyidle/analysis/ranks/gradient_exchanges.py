"""How often gradients are exchanged between two optimizer steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.roles import Role

FULL = 0.5
"""an exchange with at least half of the largest one's calls exchanges all gradients"""


class ExchangeRhythm(NamedTuple):
    """Exchanges of gradients per optimizer step (median), calls per exchange."""

    per_update: int
    calls: float


def needed_share(facts: Facts) -> float:
    """Return the part of the exchanges (0-1] that gradient accumulation needs; 1 where unknown."""
    rhythm = rhythm_of(facts)
    return 1.0 if rhythm is None else 1.0 / max(rhythm.per_update, 1)


def rhythm_of(facts: Facts) -> ExchangeRhythm | None:
    """Return how often gradients are exchanged; None where steps or exchanges are not recorded."""
    host = facts.timeline.host
    forwards = host.start[facts.rows_of(Role.REPLICA_FORWARD)]
    if not len(forwards):  # a watched run records backward passes
        forwards = host.start[facts.rows_of(Role.BACKWARD)]
    updates = _updates(facts)
    calls = np.sort(host.start[facts.rows_of(Role.GRADIENT_EXCHANGE)])
    if len(forwards) < 2 or len(updates) < 2 or not len(calls):
        return None
    edges = np.append(np.sort(forwards), np.iinfo(np.int64).max)
    counts = np.diff(np.searchsorted(calls, edges))
    full = edges[:-1][counts >= max(FULL * counts.max(), 1)]
    between = np.diff(np.searchsorted(full, updates))
    return ExchangeRhythm(int(np.median(between)), float(np.median(counts[counts > 0])))


def unused_parameter_searches(facts: Facts) -> Intervals:
    """Return when DDP searched for parameters that a step did not use."""
    host, rows = facts.timeline.host, facts.rows_of(Role.GRADIENT_SEARCH)
    return union_of(host.start[rows], host.end[rows])


def _updates(facts: Facts) -> np.ndarray:
    """Starts of the steps of the busiest optimizer, which represents all."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.OPTIMIZER)
    if not len(rows):
        return np.empty(0, np.int64)
    names, counts = np.unique(host.name[rows], return_counts=True)
    return np.sort(host.start[rows[host.name[rows] == names[counts.argmax()]]])
