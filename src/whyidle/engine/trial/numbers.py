"""Whether a fix left the numbers as they were, as its consent class promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whyidle.model.diagnosis import Consent

BLOCKS = 8
"""means of so many stretches of the loss are compared: single losses scatter with the batch"""
ROOM = 3.0
"""how many times as far apart as two untreated runs of other random order a treated one may be"""
NEAR = 1e-3
"""relative difference that other rounding may bring, where nothing else is known"""


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the numbers hold, and how that was seen, for people."""

    holds: bool
    told: str


def compare(
    consent: Consent,
    base: Sequence[float],
    treated: Sequence[float],
    again: Sequence[float] = (),
    other: Sequence[float] = (),
) -> Check:
    """Hold the losses of a treated run against those of an untreated one. ``again`` is a second
    untreated run, ``other`` one with other seeds: they say how much untreated runs differ."""
    count = min(len(base), len(treated))
    if not count:
        return Check(consent in ("none", "rounding"), "no loss was seen: nothing to compare")
    base, treated = base[:count], treated[:count]
    if not all(map(math.isfinite, treated)) and all(map(math.isfinite, base)):
        return Check(False, "a loss is no longer finite")
    if list(base) == list(treated):
        return Check(True, f"{count} losses, the same bit for bit")
    steady = not again or list(again[:count]) == base[: len(again[:count])]
    if consent == "none" and steady:
        first = next(i for i in range(count) if base[i] != treated[i])
        return Check(False, f"the loss of step {first + 1} is another: {base[first]:.6g} became "
                     f"{treated[first]:.6g}")  # fmt: skip
    return _near(base, treated, again, other)


def _near(
    base: Sequence[float], treated: Sequence[float], again: Sequence[float], other: Sequence[float]
) -> Check:
    """Whether it is about as far off as untreated runs are from each other."""
    apart = distance(base, treated)
    usual = max((distance(base, one) for one in (again, other) if len(one)), default=0.0)
    room = max(ROOM * usual, NEAR)
    told = f"losses {apart:.2%} apart; untreated runs with other seeds {usual:.2%}"
    return Check(apart <= room, told)


def distance(one: Sequence[float], another: Sequence[float]) -> float:
    """Root mean square difference of the losses' means over stretches, as a share of the mean."""
    count = min(len(one), len(another))
    size = max(1, count // BLOCKS)
    ends = range(size, count + 1, size)
    means = [
        (sum(one[end - size : end]) / size, sum(another[end - size : end]) / size) for end in ends
    ]
    scale = sum(abs(a) for a, _ in means) / len(means)
    square = sum((a - b) ** 2 for a, b in means) / len(means)
    return math.sqrt(square) / scale if scale else math.sqrt(square)
