"""Error budget of all trials, and quantiles of Student's t-distribution.

Testing many fixes at 95 % each would accept some without effect. One familywise error probability,
`WHOLE`, is therefore spent over all trials, whose number is not known in advance (the online
fallback procedure of Tian and Ramdas, "Online control of the familywise error rate", 2021): the
n-th trial gets a share of 1 / (n (n + 1)), which add up to one, and a proven fix passes its share
on to the next trial. The most promising fix comes first and gets most.
"""

from __future__ import annotations

import math

WHOLE = 0.05  # probability that a whole session keeps a fix without effect
EARLY = 0.1
"""share of a trial's alpha for each interim analysis: repeated tests find chance effects, so an
early stop requires stronger evidence (Haybittle-Peto)"""


CHANCE = 0.005
"""one-sided: scatter alone counts as a leak or a slow run once in two hundred"""
ALONE = 0.025  # one-sided alpha of a single test: an interval of 95 %
TOLD = 0.015
"""one-sided alpha of reported gains: because trials stop early, an interval of 97 % contains the
true gain in 94 to 98 % of trials; in 88 % for gains of a tenth with as much scatter, of which only
a quarter is kept (simulated, gains of 1.1 to 3.75, scatter of 2 to 10 %)"""


class AlphaBudget:
    """The remaining error probability, from one trial to the next."""

    def __init__(self, whole: float = WHOLE) -> None:
        self.whole = whole
        self.number = 1
        self.handed_on = 0.0

    @property
    def next_alpha(self) -> float:
        """One-sided error probability of the next trial."""
        return self.whole / (self.number * (self.number + 1)) + self.handed_on

    def spend_alpha(self, *, proven: bool) -> None:
        """Spend the alpha of a trial. A proven gain passes it on to the next trial."""
        self.handed_on = self.next_alpha if proven else 0.0
        self.number += 1


def alpha_share(chance: float, look: int, *, last: bool) -> float:
    """The part of a trial's alpha (``chance``) for its ``look``-th analysis, counted from 1."""
    return chance * (1.0 - EARLY * (look - 1)) if last else chance * EARLY


def student_quantile(chance: float, free: int) -> float:
    """Quantile of Student's t with ``free`` degrees of freedom for a one-sided probability, by
    bisection of the closed form (Abramowitz and Stegun, 26.7.3 and 4)."""
    if free < 1 or not 0.0 < chance < 0.5:
        return math.inf if chance < 0.5 else 0.0
    low, high = 0.0, 1.0
    while student_tail(high, free) > chance:
        low, high = high, 2.0 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, free) > chance else (low, middle)
    return high


def student_tail(t: float, free: int) -> float:
    """Probability that Student's t exceeds ``t``, 0 or more."""
    angle = math.atan(t / math.sqrt(free))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = (1.0, 1.0) if free % 2 == 0 else (cosine, cosine)
    for number in range(2 if free % 2 == 0 else 3, free, 2):
        term *= cosine * cosine * (number - 1) / number
        total += term
    if free % 2 == 0:
        return (1.0 - sine * total) / 2
    between = angle + sine * total if free > 1 else angle
    return (1.0 - 2.0 / math.pi * between) / 2
