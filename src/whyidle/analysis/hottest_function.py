"""The function in which most of some time is spent: what to look at first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.codes import is_among
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.sampled_lines import lines_with_share
from whyidle.analysis.source_places import frame_place
from whyidle.analysis.step_scope import StepScope
from whyidle.analysis.worker_batches import MOSTLY
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind


@dataclass(frozen=True, slots=True)
class HottestFunction:
    """A Python frame and its share of the time that was looked at (0-1)."""

    name: str
    share: float
    place: Place | None


def hot_function(
    facts: Facts, windows: Intervals, looks: list[tuple[Place, float]] | None = None
) -> HottestFunction | None:
    """The user's function that holds most of some time. Looks tell it also where it sleeps, waits
    for storage or calls native code, which is no Python that runs: that would name its callers.
    None where none of them holds at least half. ``looks`` are the lines that were seen then, where
    these are known."""
    spent: dict[tuple[str | None, str | None], float] = {}
    first: dict[tuple[str | None, str | None], Place] = {}
    for place, share in lines_with_share(facts, windows) if looks is None else looks:
        function = place.file, place.function
        spent[function] = spent.get(function, 0.0) + share
        first.setdefault(function, place)
    if not spent:
        return _deepest_frame(facts, windows)
    most, share = max(spent.items(), key=lambda one: one[1])
    place = first[most]
    name = f"{place.file}({place.line}): {place.function}"
    return HottestFunction(name, min(share, 1.0), place) if share >= MOSTLY else None


def _deepest_frame(
    facts: StepScope, windows: Intervals, least: float = MOSTLY
) -> HottestFunction | None:
    """The deepest Python function that holds at least ``least`` of some time on the driving
    threads: what to look at first. None without stacks, or where none of them holds so much."""
    host = facts.timeline.host
    known = (host.kind == HostKind.PYTHON) & is_among(host.thread, facts.host.drivers)
    known &= windows.contains_times(host.start)
    rows = np.flatnonzero(known)
    if not len(rows) or not windows.total:
        return None
    names, index = np.unique(host.name[rows], return_inverse=True)
    total = np.bincount(index, weights=windows.length_inside(host.start[rows], host.end[rows]))
    share = np.minimum(total / windows.total, 1.0)
    called = [not facts.timeline.plays(Role.PROBE, int(name)) for name in names]
    enough = np.flatnonzero((share >= least) & np.array(called))
    if not len(enough):
        return None
    deepest = enough[np.argmin(share[enough])]
    name = facts.timeline.names[names[deepest]]
    return HottestFunction(name, float(share[deepest]), frame_place(name, facts.rank))
