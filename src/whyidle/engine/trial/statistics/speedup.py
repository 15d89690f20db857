"""What a fix brings, from arms that ran in turn: the same steps, with and without it.

Both arms do the same work, step for step, for the same time: so where they are about as fast the
same steps are compared, and where one is much faster it shows how it goes on when the batches that
were loaded ahead at its start are used up. The scatter of an arm is estimated from all that ran
alike, pooled, since one arm has few runs; the interval is Student's for the difference of the
means of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.statistics.alpha_spending import ALONE, student_quantile

LEAST_LOG = 0.005
"""a scatter under half a percent is luck: no machine repeats a run of seconds better"""
WARM, WARM_STEPS = 0.2, 3
"""of an arm's time, its beginning, that does not count; and so many steps at least"""
LEAST = 3
"""steps after the first wait for a device that tell how long one takes"""
FEW = 2
"""pauses of the steady part in which code is compiled that count as once and for all, as when a
model that was compiled is evaluated for the first time: the steps of an arm are too few to hold
them against each. With more of them it is how the job runs (``probe/trial/compile_pauses.py``)"""
ALIKE = 1.5
"""arms of which one makes less than this many times the other's steps are compared over the same
steps"""


@dataclass(frozen=True, slots=True)
class SpeedupEstimate:
    """How many times faster, with its interval."""

    speedup: float
    low: float
    high: float
    pairs: int

    @property
    def has_interval(self) -> bool:
        """Whether anything tells how far chance may lead: one pair alone does not."""
        return self.low > 0.0


def common_steps(
    base: Sequence[ProcessReport], treated: Sequence[ProcessReport]
) -> tuple[int, int]:
    """How many steps of either's arms are compared."""
    one = min(len(told.marks) for told in base)
    another = min(len(told.marks) for told in treated)
    if max(one, another) < ALIKE * min(one, another):
        one = another = min(one, another)
    return one, another


def warmup_mark(told: ProcessReport, steps: int) -> int:
    """The mark at which the steady part of the first ``steps`` begins."""
    marks = told.marks[:steps]
    since = marks[0] + WARM * (marks[-1] - marks[0])
    first = next(number for number, mark in enumerate(marks) if mark >= since)
    return min(max(first, WARM_STEPS), max(steps - 2, 0))


def step_s(told: ProcessReport, steps: int, *, whole: bool = False) -> float:
    """Seconds of a steady step among the first ``steps``, whatever comes between them included, but
    for code that is compiled once and for all (with ``whole`` that, too). Where a device was waited
    for, from then on, by when it was done: marks tell when its host was ready, not when it was."""
    (begin, since), (end, until) = _steady_marks(told, steps)
    pauses_s = 0.0 if whole else once_s(told, begin, end)
    return ((until - since) / 1e9 - pauses_s) / max(end - begin, 1)


def _steady_marks(told: ProcessReport, steps: int) -> tuple[Sequence[int], Sequence[int]]:
    """The beginning and the end of the steady part of the first ``steps``: after how many, and
    when, ns."""
    if told.drained:
        begin, end = told.drained[0], _completed_marks(told.drained, steps)
        if end[0] - begin[0] >= LEAST:
            return begin, end
    first = warmup_mark(told, steps)
    return (first + 1, told.marks[first]), (steps, told.marks[steps - 1])


def once_s(told: ProcessReport, begin: int, end: int) -> float:
    """Seconds in which code was compiled after the step ``begin`` and before ``end`` was made,
    where that is once and for all; else 0."""
    found = [(count, ns) for count, ns in told.compiled if begin <= count < end]
    few = len({count for count, _ in found}) <= FEW
    return sum(ns for _, ns in found) / 1e9 if few else 0.0


def compiled_late(told: ProcessReport) -> bool:
    """Whether any code was compiled once its first steps were over."""
    return any(count > WARM_STEPS for count, _ in told.compiled)


def _completed_marks(drained: Sequence[Sequence[int]], steps: int) -> Sequence[int]:
    """After how many of the first ``steps`` it is known last when a device was done with them, and
    when; of one that has no events, when it was done with all."""
    known = [each for each in drained if each[0] <= steps]
    return known[-1] if len(known) > 1 else drained[-1]


def sample_s(told: ProcessReport) -> float | None:
    """Seconds of a sample while it runs steadily; None where samples were not counted."""
    each = samples_per_step(told)
    return step_s(told, len(told.marks)) / each if each else None


def samples_per_step(told: ProcessReport) -> float | None:
    """Samples of a step while it runs steadily; None where they were not counted."""
    if not told.samples:
        return None
    last = len(told.marks) - 1
    first = warmup_mark(told, last + 1)
    return (told.samples[last] - told.samples[first]) / max(last - first, 1) or None


def startup_s(told: ProcessReport, steps: int, *, whole: bool = False) -> float:
    """Seconds from the framework's import on that steady steps (``step_s``) would not have
    taken."""
    if told.drained:
        count, since = told.drained[0]
    else:
        first = warmup_mark(told, steps)
        count, since = first + 1, told.marks[first]
    later_s = 0.0 if whole else once_s(told, count, steps)
    return (since - told.begun) / 1e9 + later_s - count * step_s(told, steps, whole=whole)


def estimate_speedup(
    base: Sequence[float],
    treated: Sequence[float],
    alike: Sequence[Sequence[float]] = (),
    chance: float = ALONE,
) -> SpeedupEstimate:
    """The gain of ``treated`` over ``base``, both seconds of runs; ``alike`` are further groups of
    runs that were the same among themselves, which tell of the machine's scatter; ``chance`` is
    that of a truth below the interval, and as much that of one above."""
    groups = [[math.log(s) for s in group] for group in (base, treated, *alike)]
    own, _ = _pooled_deviation(groups[:2])
    pooled, free = _pooled_deviation(groups)
    sigma = max(pooled, own, LEAST_LOG)  # others may have run while the machine was quieter
    gain = fmean(groups[0]) - fmean(groups[1])
    half = student_quantile(chance, free) * sigma * math.sqrt(1 / len(base) + 1 / len(treated))
    low, high = math.exp(gain - half) if half < 50 else 0.0, math.exp(min(gain + half, 50))
    return SpeedupEstimate(math.exp(gain), low, high, min(len(base), len(treated)))


def _pooled_deviation(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Standard deviation within groups, and its degrees of freedom; 0 where there are none."""
    free = sum(len(group) - 1 for group in groups if group)
    square = sum((x - fmean(group)) ** 2 for group in groups if group for x in group)
    return (math.sqrt(square / free) if free > 0 else 0.0), free
