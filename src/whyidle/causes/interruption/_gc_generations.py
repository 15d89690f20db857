"""What garbage collection still costs once the heap is frozen and young objects are collected
rarely, where the recording has the generation of each collection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.pauses import Pauses, pauses_of
from whyidle.model.roles import Role

WHOLE_STEPS = 1000
"""steps between full collections, as the fix schedules them"""
THINNED_STEPS = 100
"""steps between the program's own collections, once its calls are thinned"""
OLDEST = 2
"""the generation of full collections"""


def remaining_after_freeze(facts: Facts, pauses: Pauses) -> tuple[float, float, float] | None:
    """Shares of the step that collections still take: careful, expected, hopeful. None where a
    collection has no generation.

    Without a freeze an object is examined with the youngest generation, and again with those that
    survived; after the freeze once. How many die early decides which of both determines the time,
    so the longer one is expected, and both in the worst case.
    """
    generation = _generation_of_rows(facts, pauses)
    if (generation < 0).any():
        return None
    host, rows = facts.timeline.host, pauses.rows
    idle_s = facts.time_of("gc").length_inside(host.start[rows], host.end[rows]) / 1e9
    youngest, older = (float(idle_s[generation == number].sum()) for number in (0, 1))
    growth = _growth_s(facts, pauses.rows[generation == OLDEST], idle_s[generation == OLDEST])
    per_step = older / max(facts.step_count, 1)  # some survivors die later
    likely, worst = (0.0, per_step) if growth is None else (growth, growth)
    repeated = [_full_collections_s(facts.step_count, each) for each in (worst, likely)]
    careful, expected = youngest + older + repeated[0], max(youngest, older) + repeated[1]
    hopeful, whole_s = min(youngest, older), facts.scope_s
    return careful / whole_s, expected / whole_s, hopeful / whole_s


def full_collections(facts: Facts, pauses: Pauses) -> Pauses | None:
    """The full collections, which evict caches; young objects are still cached. All collections,
    where one has no generation."""
    generation = _generation_of_rows(facts, pauses)
    if (generation < 0).any():
        return pauses
    rows = pauses.rows[generation == OLDEST]
    return pauses_of(facts, Role.GC, rows) if len(rows) else None


def _generation_of_rows(facts: Facts, pauses: Pauses) -> NDArray[np.int64]:
    """The generation of each row, -1 where it is unknown."""
    label, rows = facts.timeline.label, facts.timeline.host.name[pauses.rows]
    labels = {name: label(Role.GC_GENERATION, int(name)) for name in np.unique(rows)}
    return np.array([int(labels[name] or -1) for name in rows], np.int64)


def _growth_s(facts: Facts, rows: NDArray[np.int64], idle_s: NDArray[np.float64]) -> float | None:
    """By how much full collections become longer (s per step), which is the time to examine what a
    step adds to the heap; None with too few collections."""
    at = facts.timeline.host.start[rows] / 1e9 / facts.step_s
    if len(np.unique(at)) < 2:
        return None
    return max(0.0, float(np.polyfit(at - at[0], idle_s, 1)[0]))


def _full_collections_s(steps: int, growth_s: float) -> float:
    """Time of full collections (s) in a run as long as this one: each examines all that was added
    since the freeze."""
    times = steps / WHOLE_STEPS
    return growth_s * WHOLE_STEPS * times * (times + 1) / 2
