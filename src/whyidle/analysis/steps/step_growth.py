"""Steps that take longer as the run goes on, and the line whose time grows."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.step_by_line import StepLine
from whyidle.analysis.steps.undisturbed_steps import growth_by_others
from whyidle.model.cause import MOSTLY
from whyidle.model.purposes import TRAINING

PARTS: Final = 6
"""parts of the run whose median step is compared"""
MOST_FALLS: Final = 2
"""most pairs of parts of which the later one is faster, where the line is none of the model, its
passes or its update: other programs disturb one part, or slow down the model. By chance 20 of 720
runs have no more (Kendall's test, one-sided 3 %), and one has none"""
LEAST_STEPS: Final = 60
"""ten steps in each part, so that one slow step does not move its median"""
LEAST_GROWTH: Final = 0.10
"""least growth over the run, as a share of the mean step"""
FASTER: Final = 2.0
"""a line must grow this many times as fast as the rest of the step, as a share of itself: longer
sequences, or a slower machine, make model, loss and backward pass grow alike"""


class StepGrowth(Struct, frozen=True):
    """How the steps grew. Times are seconds per step."""

    first_s: float
    """median step of the first part of the run"""
    last_s: float
    """median step of the last part"""
    base_s: float
    """step at the beginning, by the trend"""
    steps: int
    line: StepLine
    """the line whose time grows most"""
    part: float
    """its part of the growth (0-1)"""


def find_growth(facts: Facts) -> StepGrowth | None:
    """Return how steps grow, if later parts of the run are slower than earlier ones, one line has
    most of the growth, and other programs that took the cores do not explain most of it."""
    start, end = facts.steps.start[facts.steps_in_scope], facts.steps.end[facts.steps_in_scope]
    if len(start) < LEAST_STEPS or not facts.lines:
        return None
    length = (end - start) / 1e9
    medians = np.array([np.median(part) for part in np.array_split(length, PARTS)])
    falls = np.count_nonzero(np.triu(medians[:, None] >= medians, 1))
    if falls > MOST_FALLS or medians[-1] - medians[0] < LEAST_GROWTH * length.mean():
        return None
    middle = len(start) // 2
    halves = union_of(start[:middle], end[:middle]), union_of(start[middle:], end[middle:])
    early, late = float(length[:middle].mean()), float(length[middle:].mean())
    times = [_seconds_in(line.sampled_time, halves, middle) for line in facts.lines]
    grown = max(range(len(times)), key=lambda i: times[i][1] - times[i][0])
    own_early, own_late = times[grown]
    part = (own_late - own_early) / (late - early)
    rest = _ratio(late - own_late, early - own_early)
    if falls and facts.lines[grown].purpose in TRAINING:
        return None
    if part < MOSTLY or _ratio(own_late, own_early) < FASTER * rest:
        return None
    if growth_by_others(facts, middle) >= MOSTLY * (late - early):
        return None
    return StepGrowth(
        first_s=float(medians[0]),
        last_s=float(medians[-1]),
        base_s=_step_at_start(medians),
        steps=len(start),
        line=facts.lines[grown],
        part=min(1.0, part),
    )


def _seconds_in(
    shown: Intervals, halves: tuple[Intervals, Intervals], count: int
) -> tuple[float, float]:
    """Seconds per step at a line in each half of the steps."""
    early, late = ((shown & half).total / 1e9 / count for half in halves)
    return early, late


def _ratio(late: float, early: float) -> float:
    """Growth as a share of what there was, at least zero."""
    return max(0.0, late - early) / max(early, 1e-9)


def _step_at_start(medians: F64) -> float:
    """The first step by the straight line through the medians of the parts, at most the first
    median and at least half of it."""
    at = (np.arange(PARTS) + 0.5) / PARTS
    start = np.polyfit(at, medians, 1)[1]
    return float(np.clip(start, medians[0] / 2, medians[0]))
