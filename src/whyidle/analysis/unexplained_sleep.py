"""How long a training thread stood still where nothing made it wait.

The probe reads at each exchange of gradients how long the thread ran and waited for a core until
then, and takes for the exchange what it slept in the backward pass. What it slept besides, outside
of backward passes, is for a loader, a file, a lock, or because somebody had stopped its process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.step_scope import StepScope
from whyidle.model.roles import Role
from whyidle.model.timeline import CpuPace

F64 = NDArray[np.float64]

WAITS = ("loader", "preprocess", "checkpoint", "evaluation", "logging")
"""calls that make a thread sleep; looks that find it asleep elsewhere may have met a stopped one"""
LEAST = 8
"""with fewer rounds nothing can be said"""


class UnexplainedSleep(NamedTuple):
    """Share (0-1) of the time outside of exchanging backward passes and of known waits that the
    thread slept, between ends that are two standard errors of its mean over rounds apart from it.
    """

    low: float
    share: float
    high: float


def find_unexplained_sleep(facts: StepScope) -> UnexplainedSleep | None:
    """None where too few rounds from exchange to exchange were recorded."""
    pace = facts.timeline.pace
    if pace is None or len(pace.time) <= LEAST:
        return None
    slept, whole = _sleep_by_round(facts, pace)
    if len(slept) < LEAST or whole.sum() <= 0:
        return None
    share = float(slept.sum() / whole.sum())
    error = 2.0 * float(slept.std()) / len(slept) ** 0.5 / float(whole.mean())
    low, share, high = (min(max(each, 0.0), 1.0) for each in (share - error, share, share + error))
    return UnexplainedSleep(low, share, high)


def _sleep_by_round(facts: StepScope, pace: CpuPace) -> tuple[F64, F64]:
    """Of each round in scope: what was slept, and of how much, ns."""
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
    whole = begin[1:] - end[:-1] - waited
    return slept[known].astype(np.float64), whole[known].astype(np.float64)
