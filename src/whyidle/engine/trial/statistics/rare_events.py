"""What comes so rarely that an arm holds none of it, or only one, and the budget that would do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from whyidle.model.diagnosis import Diagnosis, Finding
from whyidle.model.number_text import format_duration

COUNTED = {
    "heavy-evaluation": ("evaluations", "an evaluation"),
    "sync-checkpoint": ("steps with a save", "a checkpoint"),
    "worker-restart-per-epoch": ("starts of workers", "a start of workers"),
}
"""causes of what recurs: the evidence that counts it, and what to call one"""
ARM_SHARE, ARM_S = 0.025, (3.0, 20.0)
"""of the budget, the steady part of one arm; and bounds of it, s. More than that many seconds tell
hardly more of what every step does: more time is better spent on more arms"""
HELD, HOLDS = 3.0, 2.0
"""of what recurs rarely an arm is to hold so many, and for that is as long as its share allows; and
with fewer than the second little can be told: the first evaluation is left as it is"""
MOST_S = 24 * 3600.0
"""the longest budget that can be given"""


@dataclass(frozen=True, slots=True)
class RareEvent:
    """What recurs, about every so many seconds; ``once``: it was seen once, in so many seconds."""

    what: str
    every_s: float
    once: bool

    def explain_budget(self, arm_s: float) -> str:
        """Why arms of so many seconds of steps tell little of it, and what budget would do; empty
        where they tell enough."""
        if HOLDS * self.every_s <= arm_s:
            return ""
        comes = f"{self.what} came once in" if self.once else f"{self.what} comes every"
        told = f"{comes} {format_duration(self.every_s)}, and an arm is {arm_s:.0f} s of steps"
        needs = self.needs_s
        if needs is None:
            return f"{told}, however large the budget"
        return f"{'may need' if self.once else 'needs'} --budget {needs / 60:.0f}m: {told}"

    @property
    def needs_s(self) -> float | None:
        """A budget whose arms hold enough of it, in whole minutes; None where none is as large."""
        needs = 60.0 * math.ceil(HOLDS * self.every_s / ARM_SHARE / 60)
        return needs if needs <= MOST_S else None


def find_rare_event(finding: Finding, diagnosis: Diagnosis) -> RareEvent | None:
    """How often what a finding is about comes, as far as its evidence counts it."""
    quantity, what = COUNTED.get(finding.cause, ("", ""))
    counted = next((one for one in finding.evidence if one.quantity == quantity), None)
    step_s = diagnosis.steps.mean_s
    if counted is None or not isinstance(counted.value, (int, float)) or not step_s:
        return None
    times = max(counted.value, 1)
    seen_s = step_s * (counted.samples or diagnosis.steps.count)
    return RareEvent(what, seen_s / times, once=times <= 1)


def arm_s(budget_s: float, recurs: Iterable[RareEvent]) -> float:
    """The steady part of an arm: its share of the budget, within bounds; where something recurs
    more rarely than that, beyond them."""
    share = ARM_SHARE * budget_s
    longest = HELD * max((one.every_s for one in recurs), default=0.0)
    return max(ARM_S[0], min(share, max(ARM_S[1], longest)))
