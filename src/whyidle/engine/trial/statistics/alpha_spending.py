"""How sure a trial must be: Student's distribution, and what all trials together may get wrong.

Whoever tries many fixes at 95 % each keeps some that bring nothing. So one chance of a false keep,
`WHOLE`, is spent over all trials of a healing, whose number nobody knows before (the online
fallback procedure of Tian and Ramdas, "Online control of the familywise error rate", 2021): the
n-th trial gets a share of 1 / (n (n + 1)), which add up to one, and a fix that is proven hands its
chance on to the next. The most promising fix comes first and gets most.
"""

from __future__ import annotations

import math

WHOLE = 0.05
"""in so many of all healings, at most, a fix is kept that brings nothing"""
EARLY = 0.1
"""of a trial's chance, for each look before its last: looking again and again finds something in
the end, so whoever stops early must be surer (as in trials by Haybittle and Peto)"""
_CLOSE = 1e-9


ALONE = 0.025
"""the chance, one-sided, of what is asked once only: an interval of 95 %"""
TOLD = 0.015
"""the chance, one-sided, by which the gain of a fix that was kept is told: pairs end when it is
sure, or narrow enough, and of such trials an interval of 97 % holds the truth in 94 to 98 of a
hundred; in 88 where a tenth is gained and runs scatter by as much, so that only every fourth is
kept (simulated, gains of 1.1 to 3.75, scatter of 2 to 10 %)"""


class AlphaBudget:
    """What is left of the chance of false keeps, from one trial to the next."""

    def __init__(self, whole: float = WHOLE) -> None:
        self.whole = whole
        self.number = 1
        self.handed_on = 0.0

    @property
    def next_alpha(self) -> float:
        """The chance, one-sided, that the next trial may have of keeping what brings nothing."""
        return self.whole / (self.number * (self.number + 1)) + self.handed_on

    def spend_alpha(self, *, proven: bool) -> None:
        """A trial took what was offered. Where it has proven a gain, that was no false keep, or it
        was the one that is allowed: either way its chance goes on to the next."""
        self.handed_on = self.next_alpha if proven else 0.0
        self.number += 1


def alpha_share(chance: float, look: int, *, last: bool) -> float:
    """Of a trial's ``chance`` what its ``look``-th look (from 1) at the times may take."""
    return chance * (1.0 - EARLY * (look - 1)) if last else chance * EARLY


def student_quantile(chance: float, free: int) -> float:
    """What Student's t with ``free`` degrees of freedom exceeds with this one-sided chance; found
    by halving, from the closed form of its distribution (Abramowitz and Stegun, 26.7.3 and 4)."""
    if free < 1 or not 0.0 < chance < 0.5:
        return math.inf if chance < 0.5 else 0.0
    low, high = 0.0, 1.0
    while student_tail(high, free) > chance:
        low, high = high, 2.0 * high
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, free) > chance else (low, middle)
    return high


def student_tail(t: float, free: int) -> float:
    """The chance that Student's t exceeds ``t``, 0 or more."""
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
