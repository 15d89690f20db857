"""One-off cost of a fix (compiling, starting workers, a first pass) and when it pays off.

It pays off after ``cost / (step without - step with)`` steps, which the remaining job must have.
Differences of start-up times within the scatter count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from whyidle.fix.statistics.alpha_spending import ALONE, student_quantile

LEAST_S = 0.05  # least scatter of start-up times


@dataclass(frozen=True, slots=True)
class RemainingJob:
    """The remaining job: a number of steps, or else seconds at the current speed."""

    steps: float | None = None
    seconds: float = 0.0

    def remaining_steps(self, step_s: float) -> float:
        """Remaining steps of ``step_s`` seconds each."""
        return self.steps if self.steps is not None else self.seconds / step_s


@dataclass(frozen=True, slots=True)
class StartupCost:
    """One-off cost of a fix, seconds; 0 if it may be chance."""

    seconds: float
    pays_after: float  # steps that recover it; infinite if none do

    def describe_cost(self, left: float) -> str:
        """Explain why the cost is not recovered in the ``left`` steps."""
        costs = f"it takes {self.seconds:.1f} s longer to start"
        return (
            f"does not pay off: {costs}, recovered after {self.pays_after:.0f} of {left:.0f} steps"
        )


def startup_cost(
    base_s: Sequence[float], treated_s: Sequence[float], step_s: tuple[float, float]
) -> StartupCost:
    """Compute the cost from start-up times, and step times without and with the fix."""
    cost = fmean(treated_s) - fmean(base_s)
    groups = (base_s, treated_s)
    free = sum(len(group) - 1 for group in groups)
    square = sum((x - fmean(group)) ** 2 for group in groups for x in group)
    sigma = max(math.sqrt(square / free), LEAST_S) if free else math.inf
    half = student_quantile(ALONE, free) * sigma * math.sqrt(1 / len(base_s) + 1 / len(treated_s))
    if not cost > half:
        return StartupCost(0.0, 0.0)
    gain = step_s[0] - step_s[1]
    return StartupCost(cost, cost / gain if gain > 0 else math.inf)
