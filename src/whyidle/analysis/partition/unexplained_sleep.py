"""Sleep of a training thread without a known reason. At each gradient exchange the probe reads how
long the thread ran and waited for a core, and counts its sleep in the backward pass for the
exchange. Sleep outside backward passes is for a loader, a file, a lock, or because its process was
stopped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.arrays import F64
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role
from whyidle.model.timeline import CpuPace

WAITS = ("loader", "preprocess", "checkpoint", "evaluation", "logging")
"""calls that make a thread sleep; samples that find it asleep elsewhere may show a stop"""
LEAST = 8
"""least rounds"""


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
