"""What is kept of each of many ranks: its steps, its attribution, its collectives and where they
hold it up, about a hundredth of its events. Whole recordings of hundreds of ranks do not fit into
memory; this is enough to find who waits for whom, and the ranks that are worth a closer look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_groups import groups_of
from whyidle.model.timeline import HostEvents, Timeline

KEPT = ("steps", "steps_in_scope", "scope", "reasons", "collectives", "held_up", "signals")
"""facts that are computed from all events and kept"""
CLOSELY = 8
"""ranks that are diagnosed closely: the outliers, and typical ones to compare them with"""


class SurveyedRank(Facts):
    """The facts of one rank that are kept; others are those of a recording without events."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(_without_events(facts.timeline))
        vars(self).update({name: getattr(facts, name) for name in KEPT})
        self._per_step = facts.per_step()

    def per_step(self) -> list[dict[str, float]]:
        """Return the bucket shares of each step in scope."""
        return self._per_step


def _without_events(timeline: Timeline) -> Timeline:
    none = np.empty(0, dtype=np.int64)
    return replace(
        timeline,
        names=(),
        details=(),
        threads=(),
        host=HostEvents.from_columns(none, none, kind=0, name=0, thread=0),
        device=timeline.device.take_rows(none),
        memory=replace(timeline.memory, time=none, allocated=none, reserved=none),
    )


def choose_closely(ranks: Sequence[SurveyedRank]) -> list[int]:
    """Return the positions of the ranks to diagnose closely: the one that the others wait for, the
    one with the least useful work, the slowest, the typical one of each group, then others from
    those that work most to those that work least."""
    job = Job(tuple(ranks))
    own, lateness = job.imbalance.own_work, job.imbalance.lateness_s
    compute = [facts.attribution["compute"] for facts in ranks]
    length = [facts.step_s for facts in ranks]
    chosen: dict[Any, None] = {} if lateness is None else {int(np.argmax(lateness)): None}
    chosen |= dict.fromkeys((int(np.argmin(compute)), int(np.argmax(length))))
    by_work = np.argsort(own, kind="stable")
    for members in groups_of(ranks).get("stage", {}).values():
        inside = by_work[np.isin(by_work, members)]
        chosen[int(inside[len(inside) // 2])] = None
    spread = np.linspace(len(by_work) - 1, 0, CLOSELY).round().astype(int)
    chosen |= dict.fromkeys(by_work[spread].tolist())
    return sorted(list(chosen)[:CLOSELY])
