"""Events that are too rare for an arm, such as evaluations, and the budget that they need."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from whyidle.model.diagnosis import Diagnosis, Finding
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import EVALUATIONS, SAVES, WORKER_STARTS

COUNTED = {
    "heavy-evaluation": (EVALUATIONS, "an evaluation"),
    "sync-checkpoint": (SAVES, "a checkpoint"),
    "worker-restart-per-epoch": (WORKER_STARTS, "a start of workers"),
}
"""causes of recurring events: the evidence that counts them, and the name of one"""
ARM_SHARE, ARM_S = 0.025, (3.0, 20.0)
"""steady part of an arm as a share of the budget, and its bounds, s: beyond them, more arms are
more useful than longer ones"""
HELD, HOLDS = 3.0, 2.0
"""rare events that an arm should contain, and the number below which a gain can hardly be proven,
since the first evaluation is never changed"""
MOST_S = 24 * 3600.0  # longest possible budget


@dataclass(frozen=True, slots=True)
class RareEvent:
    """An event that occurs every ``every_s`` seconds; ``once``: it was seen once in that time."""

    what: str
    every_s: float
    once: bool

    def explain_budget(self, arm_s: float) -> str:
        """Explain why arms of ``arm_s`` seconds are too short, and name a budget; or empty."""
        if HOLDS * self.every_s <= arm_s:
            return ""
        frequency = f"{self.what} occurred once in" if self.once else f"{self.what} occurs every"
        text = f"{frequency} {format_duration(self.every_s)}, a trial has {arm_s:.0f} s of steps"
        needs = self.needs_s
        if needs is None:
            return f"{text} with any budget"
        return f"{'may need' if self.once else 'needs'} --budget {needs / 60:.0f}m: {text}"

    @property
    def needs_s(self) -> float | None:
        """Budget whose arms contain enough events, in whole minutes; None above the maximum."""
        needs = 60.0 * math.ceil(HOLDS * self.every_s / ARM_SHARE / 60)
        return needs if needs <= MOST_S else None


def find_rare_event(finding: Finding, diagnosis: Diagnosis) -> RareEvent | None:
    """The recurring event of a finding; None if its evidence does not count it."""
    quantity, what = COUNTED.get(finding.cause, ("", ""))
    counted = next((one for one in finding.evidence if one.quantity == quantity), None)
    step_s = diagnosis.steps.mean_s
    if counted is None or not isinstance(counted.value, (int, float)) or not step_s:
        return None
    times = max(counted.value, 1)
    seen_s = step_s * (counted.samples or diagnosis.steps.count)
    return RareEvent(what, seen_s / times, once=times <= 1)


def arm_s(budget_s: float, recurs: Iterable[RareEvent]) -> float:
    """Steady part of an arm, s: a share of the budget within bounds, longer for rare events."""
    share = ARM_SHARE * budget_s
    longest = HELD * max((one.every_s for one in recurs), default=0.0)
    return max(ARM_S[0], min(share, max(ARM_S[1], longest)))
