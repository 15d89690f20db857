"""Estimates the speed-up of a fix from alternating arms with and without it.

If both are about as fast, the same steps are compared; if one is much faster, all of its steps
count, so that batches loaded ahead at its start do not dominate. The scatter is pooled over all
groups of equal arms, because one group has few runs. The interval is Student's, for the difference
of the mean logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.statistics.alpha_spending import ALONE, student_quantile

LEAST_LOG = 0.005  # least scatter of logarithms: no machine repeats a run of seconds more precisely
WARM, WARM_STEPS = 0.2, 3  # warm-up of an arm: share of its time, and least number of steps
LEAST = 3  # steps after the first wait for the device that a step time needs
FEW = 2
"""compilations in the steady part that count as one-off, such as for the first evaluation; more of
them are part of the job (``probe/trial/trial_recorder.py``)"""
ALIKE = 1.5
"""arms are compared over the same steps if their step counts differ by less than this factor"""


@dataclass(frozen=True, slots=True)
class SpeedupEstimate:
    """A speed-up with its interval."""

    speedup: float
    low: float
    high: float
    pairs: int

    @property
    def has_interval(self) -> bool:
        """Whether the scatter is known; one pair alone does not show it."""
        return self.low > 0.0


def common_steps(
    base: Sequence[ProcessReport], treated: Sequence[ProcessReport]
) -> tuple[int, int]:
    """Number of compared steps of untreated and treated arms."""
    base_steps = min(len(report.marks) for report in base)
    treated_steps = min(len(report.marks) for report in treated)
    if max(base_steps, treated_steps) < ALIKE * min(base_steps, treated_steps):
        base_steps = treated_steps = min(base_steps, treated_steps)
    return base_steps, treated_steps


def warmup_mark(report: ProcessReport, steps: int) -> int:
    """Index of the mark at which the steady part of the first ``steps`` begins."""
    marks = report.marks[:steps]
    since = marks[0] + WARM * (marks[-1] - marks[0])
    first = next(number for number, mark in enumerate(marks) if mark >= since)
    return min(max(first, WARM_STEPS), max(steps - 2, 0))


def step_s(report: ProcessReport, steps: int, *, whole: bool = False) -> float:
    """Seconds of a steady step among the first ``steps``.

    Pauses between steps count, except for one-off compilations (with ``whole`` these count too).
    If the device was waited for, its completion times are used instead of the host's marks.
    """
    (begin, since), (end, until) = _steady_marks(report, steps)
    pauses_s = 0.0 if whole else once_s(report, begin, end)
    return ((until - since) / 1e9 - pauses_s) / max(end - begin, 1)


def _steady_marks(report: ProcessReport, steps: int) -> tuple[Sequence[int], Sequence[int]]:
    """Begin and end of the steady part of the first ``steps``, each as (steps done, ns)."""
    if report.drained:
        known = [each for each in report.drained if each[0] <= steps]
        begin, end = report.drained[0], (known if len(known) > 1 else report.drained)[-1]
        if end[0] - begin[0] >= LEAST:
            return begin, end
    first = warmup_mark(report, steps)
    return (first + 1, report.marks[first]), (steps, report.marks[steps - 1])


def once_s(report: ProcessReport, begin: int, end: int) -> float:
    """Seconds of one-off compilations between the steps ``begin`` and ``end``."""
    found = [(count, ns) for count, ns in report.compiled if begin <= count < end]
    few = len({count for count, _ in found}) <= FEW
    return sum(ns for _, ns in found) / 1e9 if few else 0.0


def compiled_late(report: ProcessReport) -> bool:
    """Whether code was compiled after the warm-up."""
    return any(count > WARM_STEPS for count, _ in report.compiled)


def startup_s(report: ProcessReport, steps: int, *, whole: bool = False) -> float:
    """Seconds from the framework's import on in excess of steady steps (``step_s``)."""
    if report.drained:
        count, since = report.drained[0]
    else:
        first = warmup_mark(report, steps)
        count, since = first + 1, report.marks[first]
    later_s = 0.0 if whole else once_s(report, count, steps)
    return (since - report.begun) / 1e9 + later_s - count * step_s(report, steps, whole=whole)


def estimate_speedup(
    base: Sequence[float],
    treated: Sequence[float],
    alike: Sequence[Sequence[float]] = (),
    chance: float = ALONE,
) -> SpeedupEstimate:
    """Estimate the speed-up of ``treated`` over ``base``, both seconds per step of each arm.

    ``alike``: further groups of equal arms, for the scatter. ``chance``: one-sided probability that
    the true value lies below (or above) the interval.
    """
    groups = [[math.log(s) for s in group] for group in (base, treated, *alike)]
    own, _ = _pooled_deviation(groups[:2])
    pooled, free = _pooled_deviation(groups)
    sigma = max(pooled, own, LEAST_LOG)  # other groups may have run with less background load
    gain = fmean(groups[0]) - fmean(groups[1])
    half = student_quantile(chance, free) * sigma * math.sqrt(1 / len(base) + 1 / len(treated))
    low, high = math.exp(gain - half) if half < 50 else 0.0, math.exp(min(gain + half, 50))
    return SpeedupEstimate(math.exp(gain), low, high, min(len(base), len(treated)))


def _pooled_deviation(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    free = sum(len(group) - 1 for group in groups if group)
    square = sum((x - fmean(group)) ** 2 for group in groups if group for x in group)
    return (math.sqrt(square / free) if free > 0 else 0.0), free
