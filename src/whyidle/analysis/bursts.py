"""Which of a run's bursts, recordings of every operator of a few steps, speaks for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from whyidle.model.timeline import Timeline


def most_like(bursts: Sequence[Timeline], step_s: float) -> list[Timeline]:
    """Bursts, first the one around which steps were most like a typical one of the run."""

    def unlike(burst: Timeline) -> float:
        before = burst.settings.get("burst", {}).get("before_s")
        return abs(log(before / step_s)) if before and step_s > 0 else float("inf")

    return sorted(bursts, key=unlike)
