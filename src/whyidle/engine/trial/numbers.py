"""Whether a fix left the numbers as they were, as its consent class promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whyidle.engine.trial.told import Told
from whyidle.model.diagnosis import Consent

BLOCKS = 8
"""means of so many stretches of the loss are compared: single losses scatter with the batch"""
ROOM = 3.0
"""how many times as far apart as two untreated runs of other random order a treated one may be"""
FAR = 2.0
"""how many times as far, or less, parameters may go in the first steps"""
NEAR = 1e-3
"""relative difference that other rounding may bring, where nothing else is known"""


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the numbers hold, and how that was seen, for people."""

    holds: bool
    told: str


@dataclass(frozen=True, slots=True)
class Untreated:
    """What untreated runs show of themselves: the first one, a second one (``again``), and one with
    other seeds (``other``), which say how far apart such runs are. None: not run."""

    base: Told
    again: Told | None = None
    other: Told | None = None

    @property
    def steady(self) -> bool:
        """Whether two runs are the same bit for bit, as far as is known."""
        return self.again is None or same(self.base.losses, self.again.losses)


def compare(consent: Consent, untreated: Untreated, treated: Told) -> Check:
    """Hold what a treated run learned against untreated ones."""
    base, moved = untreated.base.losses, untreated.base.moved
    count = min(len(base), len(treated.losses))
    if consent != "convergence" and not _as_far(moved, treated.moved):
        return Check(False, f"parameters go {treated.moved:.3g} far at first, not {moved:.3g}")
    if not count:
        held = consent == "none" and moved is not None and treated.moved == moved
        return Check(held, "no loss was seen" + (", parameters move as before" if held else ""))
    if same(base, treated.losses):
        return Check(True, f"{count} losses, the same bit for bit")
    odd = next(i for i in range(count) if not same(base[i : i + 1], treated.losses[i : i + 1]))
    if math.isfinite(base[odd]) and not math.isfinite(treated.losses[odd]):
        return Check(False, f"loss {odd + 1} is no longer finite")
    if consent == "none" and untreated.steady:
        became = f"{base[odd]:.6g} became {treated.losses[odd]:.6g}"
        return Check(False, f"loss {odd + 1} is another: {became}")
    return _near(untreated, treated)


def same(one: Sequence[float], another: Sequence[float]) -> bool:
    """Whether two runs are the same bit for bit as long as both go on; no number is one, too."""
    pairs = zip(one, another, strict=False)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


def _as_far(base: float | None, treated: float | None) -> bool:
    """Whether parameters go about as far as before: what learns nothing has losses that look like
    those of any other seed for a while."""
    if base is None or treated is None or not base > 0 or not math.isfinite(base):
        return True
    return 1 / FAR < treated / base < FAR


def _near(untreated: Untreated, treated: Told) -> Check:
    """Whether it is about as far off as untreated runs are from each other."""
    base, known = untreated.base.losses, (untreated.again, untreated.other)
    apart = distance(base, treated.losses)
    usual = max((distance(base, one.losses) for one in known if one is not None), default=0.0)
    whose = "with other seeds " if untreated.other is not None else ""
    told = f"losses {apart:.2%} apart; untreated runs {whose}{usual:.2%}"
    return Check(apart <= max(ROOM * usual, NEAR), told)


def distance(one: Sequence[float], another: Sequence[float]) -> float:
    """Root mean square difference of the losses' means over stretches, as a share of the mean."""
    count = min(len(one), len(another))
    if not count:
        return 0.0
    size = max(1, count // BLOCKS)
    ends = range(size, count + 1, size)
    means = [
        (sum(one[end - size : end]) / size, sum(another[end - size : end]) / size) for end in ends
    ]
    scale = sum(abs(a) for a, _ in means) / len(means)
    square = sum((a - b) ** 2 for a, b in means) / len(means)
    return math.sqrt(square) / scale if scale else math.sqrt(square)
