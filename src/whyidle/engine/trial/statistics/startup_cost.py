"""What a fix costs once (compiling, starting workers, a first pass), and when that has paid.

It is kept only where the steps that are left bring more than it costs: after
``cost / (step without - step with)`` steps. A difference of start-ups that may be chance is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from whyidle.engine.trial.statistics.alpha_spending import ALONE, student_quantile

LEAST_S = 0.05
"""start-ups that differ by less scatter so by luck"""


@dataclass(frozen=True, slots=True)
class RemainingJob:
    """What of the job is still to run: so many steps, or else seconds as it is."""

    steps: float | None = None
    seconds: float = 0.0

    def remaining_steps(self, step_s: float) -> float:
        """Steps of ``step_s`` each."""
        return self.steps if self.steps is not None else self.seconds / step_s


@dataclass(frozen=True, slots=True)
class StartupCost:
    """Seconds that a fix costs once, 0 where that may be chance, and the steps that bring them back
    (infinite where none do)."""

    seconds: float
    pays_after: float

    def describe_cost(self, left: float) -> str:
        """Why it is not kept, half a sentence."""
        costs = f"it takes {self.seconds:.1f} s more to start"
        return f"does not pay: {costs}, pays after {self.pays_after:.0f} steps; {left:.0f} are left"


def startup_cost(
    base_s: Sequence[float], treated_s: Sequence[float], step_s: tuple[float, float]
) -> StartupCost:
    """From what arms took beyond their steady steps, and seconds of a step without and with it."""
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
