"""What a fix brings, from arms that ran in turn: the same steps, with and without it.

Both arms do the same work, step for step, so the time from the end of the warm-up to the last
common step is compared. The scatter of an arm is estimated from all that ran alike, pooled, since
one treatment has few runs; the interval is Student's for the difference of the means of
logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from whyidle.engine.trial.arm import Told

LEVEL = 0.95
LEAST_LOG = 0.005
"""a scatter under half a percent is luck: no machine repeats a run of seconds better"""
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14)
"""two-sided 95 % points of Student's t, 1 to 14 degrees of freedom (any table of it)"""
WARM = 0.2
"""of the steps, the first, that do not count"""


@dataclass(frozen=True, slots=True)
class Effect:
    """How many times faster, with its interval."""

    speedup: float
    low: float
    high: float
    pairs: int


def warm(steps: int) -> int:
    """How many of so many steps are warm-up."""
    return min(max(3, round(WARM * steps)), max(steps - 2, 0))


def steady_s(told: Told, steps: int) -> float:
    """Seconds of the first ``steps`` steps after their warm-up."""
    return (told.marks[steps - 1] - told.marks[warm(steps)]) / 1e9


def startup_s(told: Told, steps: int) -> float:
    """Seconds from the framework's import to the end of the warm-up."""
    return (told.marks[warm(steps)] - told.begun) / 1e9


def effect(
    base: Sequence[float], treated: Sequence[float], alike: Sequence[Sequence[float]] = ()
) -> Effect:
    """The gain of ``treated`` over ``base``, both seconds of runs; ``alike`` are further groups of
    runs that were the same among themselves, which tell of the machine's scatter."""
    groups = [[math.log(s) for s in group] for group in (base, treated, *alike)]
    free = sum(len(group) - 1 for group in groups if group)
    square = sum((x - fmean(group)) ** 2 for group in groups if group for x in group)
    sigma = max(math.sqrt(square / free) if free > 0 else math.inf, LEAST_LOG)
    gain = fmean(groups[0]) - fmean(groups[1])
    half = _student(free) * sigma * math.sqrt(1 / len(base) + 1 / len(treated))
    low, high = math.exp(gain - half) if half < 50 else 0.0, math.exp(min(gain + half, 50))
    return Effect(math.exp(gain), low, high, min(len(base), len(treated)))


def _student(free: int) -> float:
    if free < 1:
        return math.inf
    return _STUDENT[free - 1] if free <= len(_STUDENT) else 1.96 + 2.5 / free
