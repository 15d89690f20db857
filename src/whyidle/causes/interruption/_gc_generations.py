"""What is left of garbage collection once the heap is frozen and young objects are looked through
every now and then, where the recording tells what each collection looked through."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.pauses import Pauses, pauses_of
from whyidle.model.roles import Role

WHOLE_STEPS = 1000
"""steps from one collection of all that is not frozen to the next, as the fix makes them"""
THINNED_STEPS = 100
"""steps of which one still has the program's own collection, once its calls are thinned out"""
OLDEST = 2
"""the generation whose collection looks through everything"""


def remaining_after_freeze(facts: Facts, found: Pauses) -> tuple[float, float, float] | None:
    """Shares of the step that collections still take: careful, expected, hopeful. None where not
    every collection tells its generation.

    Now an object is looked through among the youngest, and again among those that outlived a few
    such collections; afterwards once. Which of both tells how long that takes depends on how many
    die early, so the longer one is expected, and both at worst.
    """
    generation = _generation_of_rows(facts, found)
    if (generation < 0).any():
        return None
    idle_s = _idle_s(facts, found)
    youngest, older = (float(idle_s[generation == number].sum()) for number in (0, 1))
    growth = _growth_s(facts, found.rows[generation == OLDEST], idle_s[generation == OLDEST])
    per_step = older / max(facts.step_count, 1)  # of what lives on, some dies later
    likely, worst = (0.0, per_step) if growth is None else (growth, growth)
    again = [_again_s(facts.step_count, each) for each in (worst, likely)]
    careful, expected = youngest + older + again[0], max(youngest, older) + again[1]
    hopeful, whole_s = min(youngest, older), facts.scope_s
    return careful / whole_s, expected / whole_s, hopeful / whole_s


def full_collections(facts: Facts, found: Pauses) -> Pauses | None:
    """The collections that sweep a cache: young objects were just made, and are in it. All, where
    one does not tell its generation."""
    generation = _generation_of_rows(facts, found)
    if (generation < 0).any():
        return found
    rows = found.rows[generation == OLDEST]
    return pauses_of(facts, Role.GC, rows) if len(rows) else None


def _generation_of_rows(facts: Facts, found: Pauses) -> NDArray[np.int64]:
    """Of each pause's rows; -1 where it is not told."""
    label, rows = facts.timeline.label, facts.timeline.host.name[found.rows]
    told = {name: label(Role.GC_GENERATION, int(name)) for name in np.unique(rows)}
    return np.array([int(told[name] or -1) for name in rows], np.int64)


def _idle_s(facts: Facts, found: Pauses) -> NDArray[np.float64]:
    host = facts.timeline.host
    return facts.time_of("gc").length_inside(host.start[found.rows], host.end[found.rows]) / 1e9


def _growth_s(facts: Facts, rows: NDArray[np.int64], idle_s: NDArray[np.float64]) -> float | None:
    """By how much full collections become longer, s a step; None where there are too few to tell.
    That is what it takes to look through what a step adds to the heap."""
    at = facts.timeline.host.start[rows] / 1e9 / facts.step_s
    if len(np.unique(at)) < 2:
        return None
    return max(0.0, float(np.polyfit(at - at[0], idle_s, 1)[0]))


def _again_s(steps: int, growth_s: float) -> float:
    """Full collections in a run as long as this one, s: each looks through all that was added
    since the freeze."""
    times = steps / WHOLE_STEPS
    return growth_s * WHOLE_STEPS * times * (times + 1) / 2
