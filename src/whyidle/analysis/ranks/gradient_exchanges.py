"""How often gradients are exchanged between two optimizer steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.ranks.backward_time import compute_time
from whyidle.model.roles import Role

FULL = 0.5
"""an exchange with at least half of the largest one's calls exchanges all gradients"""


LEAST = 8
"""fewer exchanges are not judged"""
COPIED = 2 * 3
"""passes of all gradients through memory per exchange: DistributedDataParallel copies them into
buckets and back, and a copy reads, fetches the overwritten lines, and writes"""
BYTES_PER_S = (30e9, 12e9, 5e9)
"""of one core. Low gain: from a cache; expected: STREAM on a server's core (10 to 15 GB/s); high
gain: a core that shares memory bandwidth. With two ranks and 14.7 MB of gradients on two
virtual cores an exchange took 7.2 and 7.6 ms without waiting (PyTorch 2.13)"""


class ExchangeRhythm(NamedTuple):
    """Exchanges of gradients per optimizer step (median), calls per exchange."""

    per_update: int
    calls: float


def needed_share(facts: Facts) -> float:
    """Return the part of the exchanges (0-1] that gradient accumulation needs; 1 where unknown."""
    rhythm = rhythm_of(facts)
    return 1.0 if rhythm is None else 1.0 / max(rhythm.per_update, 1)


def copy_shares(facts: Facts) -> tuple[float, float, float]:
    """Return the share of the step in which a watched CPU job's training thread copies gradients,
    with its wait for a core: lower bound, expected, upper bound; zeros where unknown."""
    ddp, pace, compute = facts.timeline.process.ddp, facts.timeline.pace, compute_time(facts)
    if ddp is None or ddp.gradient_as_bucket_view or not facts.on_cpu:
        return 0.0, 0.0, 0.0
    if pace is None or compute is None or len(pace.time) < LEAST:
        return 0.0, 0.0, 0.0
    exchanges = facts.scope.contains_times(pace.time).sum() / max(facts.step_count, 1)
    moved = COPIED * ddp.total_parameter_size_bytes * float(exchanges)
    ran, queued = (float(column[-1] - column[0]) for column in (pace.ran, pace.queued))
    scale = 1.0 + queued / max(ran, 1.0)
    low, likely, high = (min(moved / speed * scale, compute[0]) for speed in BYTES_PER_S)
    return low / facts.step_s, likely / facts.step_s, high / facts.step_s


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


def optimizer_updates(facts: Facts) -> Intervals:
    """Return when an optimizer stepped."""
    host, rows = facts.timeline.host, facts.rows_of(Role.OPTIMIZER)
    return union_of(host.start[rows], host.end[rows])


def _updates(facts: Facts) -> np.ndarray:
    """Starts of the steps of the busiest optimizer, which represents all."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.OPTIMIZER)
    if not len(rows):
        return np.empty(0, np.int64)
    names, counts = np.unique(host.name[rows], return_counts=True)
    return np.sort(host.start[rows[host.name[rows] == names[counts.argmax()]]])
