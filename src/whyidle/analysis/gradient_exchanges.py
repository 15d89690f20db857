"""How often gradients are exchanged between two steps of the optimizer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.backward_time import compute_time
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.roles import Role

FULL = 0.5
"""an exchange of at least half of the largest one's calls is one of all gradients"""


LEAST = 8
"""with fewer exchanges nothing is said of them"""
COPIED = 2 * 3
"""times that all gradients pass through memory at an exchange: DistributedDataParallel copies them
into its buckets, and what was exchanged back, and a copy reads, fetches what it will overwrite, and
writes"""
BYTES_PER_S = (30e9, 12e9, 5e9)
"""of one core: careful, from a cache; expected, what STREAM shows for a server's core (10 to 15
GB/s); hopeful, a core that shares its memory's bandwidth. In jobs of two ranks with 14.7 MB of
gradients on two virtual cores an exchange took 7.2 and 7.6 ms beside its waiting (PyTorch 2.13)"""


class ExchangeRhythm(NamedTuple):
    """Exchanges of gradients per optimizer step (median), all exchanges, calls per exchange."""

    per_update: int
    exchanges: int
    calls: float


def needed_share(facts: Facts) -> float:
    """The part of the exchanges (0-1] that gradient accumulation needs: the last of each optimizer
    step; all of them where the recording does not tell."""
    rhythm = rhythm_of(facts)
    return 1.0 if rhythm is None else 1.0 / max(rhythm.per_update, 1)


def copy_shares(facts: Facts) -> tuple[float, float, float]:
    """Share of the step that the training thread of a watched CPU job copies gradients to exchange
    them, with the wait for a core that goes with running so long: careful, expected, hopeful. No
    more than it computes in its backward passes; zeros where sizes or exchanges are not known."""
    told, pace, found = facts.timeline.process.ddp, facts.timeline.pace, compute_time(facts)
    if told is None or told.gradient_as_bucket_view or not facts.on_cpu:
        return 0.0, 0.0, 0.0
    if pace is None or found is None or len(pace.time) < LEAST:
        return 0.0, 0.0, 0.0
    exchanges = facts.scope.contains_times(pace.time).sum() / max(facts.step_count, 1)
    moved = COPIED * told.total_parameter_size_bytes * float(exchanges)
    ran, queued = (float(each[-1] - each[0]) for each in (pace.ran, pace.queued))
    along = 1.0 + queued / max(ran, 1.0)
    low, likely, high = (min(moved / speed * along, found[0]) for speed in BYTES_PER_S)
    return low / facts.step_s, likely / facts.step_s, high / facts.step_s


def rhythm_of(facts: Facts) -> ExchangeRhythm | None:
    """How often gradients are exchanged; None where forward passes, optimizer steps or all-reduces
    are not recorded."""
    host = facts.timeline.host
    forwards = host.start[facts.rows_of(Role.REPLICA_FORWARD)]
    if not len(forwards):  # a watched run records backward passes
        forwards = host.start[facts.rows_of(Role.BACKWARD)]
    updates = _updates(facts)
    calls = np.sort(host.start[facts.rows_of(Role.GRADIENT_EXCHANGE)])
    if len(forwards) < 2 or len(updates) < 2 or not len(calls):
        return None
    edges = np.append(np.sort(forwards), np.iinfo(np.int64).max)
    made = np.diff(np.searchsorted(calls, edges))
    full = edges[:-1][made >= max(FULL * made.max(), 1)]
    between = np.diff(np.searchsorted(full, updates))
    return ExchangeRhythm(int(np.median(between)), len(full), float(np.median(made[made > 0])))


def unused_parameter_searches(facts: Facts) -> Intervals:
    """When parameters that a step did not use were searched for."""
    host, rows = facts.timeline.host, facts.rows_of(Role.GRADIENT_SEARCH)
    return union_of(host.start[rows], host.end[rows])


def optimizer_updates(facts: Facts) -> Intervals:
    """When an optimizer stepped."""
    host, rows = facts.timeline.host, facts.rows_of(Role.OPTIMIZER)
    return union_of(host.start[rows], host.end[rows])


def _updates(facts: Facts) -> np.ndarray:
    """Starts of the steps of the busiest optimizer: one of several names stands for all."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.OPTIMIZER)
    if not len(rows):
        return np.empty(0, np.int64)
    names, counts = np.unique(host.name[rows], return_counts=True)
    return np.sort(host.start[rows[host.name[rows] == names[counts.argmax()]]])
