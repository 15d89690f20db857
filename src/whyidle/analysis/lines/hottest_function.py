"""The function with most of some time, to inspect first."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.lines.sampled_lines import lines_with_share
from whyidle.analysis.lines.source_lines import frame_place
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind


class HottestFunction(Struct, frozen=True):
    """A Python frame and its share of the sampled time (0-1)."""

    name: str
    share: float
    place: Place | None


def hot_function(
    facts: Facts, windows: Intervals, samples: list[tuple[Place, float]] | None = None
) -> HottestFunction | None:
    """Return the user's function that holds at least half of ``windows``, also while it waits or
    runs native code. ``samples`` are the sampled lines, if already known."""
    spent: dict[tuple[str | None, str | None], float] = {}
    first: dict[tuple[str | None, str | None], Place] = {}
    for place, share in lines_with_share(facts, windows) if samples is None else samples:
        function = place.file, place.function
        spent[function] = spent.get(function, 0.0) + share
        first.setdefault(function, place)
    if not spent:
        return _deepest_frame(facts, windows)
    most, share = max(spent.items(), key=lambda item: item[1])
    place = first[most]
    name = f"{place.file}({place.line}): {place.function}"
    return HottestFunction(name, min(share, 1.0), place) if share >= MOSTLY else None


def _deepest_frame(facts: StepScope, windows: Intervals) -> HottestFunction | None:
    """The deepest Python function with most of some time on the driving threads."""
    host = facts.timeline.host
    known = (host.kind == HostKind.PYTHON) & is_among(host.thread, facts.host.drivers)
    known &= windows.contains_times(host.start)
    rows = np.flatnonzero(known)
    if not len(rows) or not windows.total:
        return None
    names, index = np.unique(host.name[rows], return_inverse=True)
    total = np.bincount(index, weights=windows.length_inside(host.start[rows], host.end[rows]))
    share = np.minimum(total / windows.total, 1.0)
    is_user = [not facts.timeline.plays(Role.PROBE, int(name)) for name in names]
    enough = np.flatnonzero((share >= MOSTLY) & np.array(is_user))
    if not len(enough):
        return None
    deepest = enough[np.argmin(share[enough])]
    name = facts.timeline.names[names[deepest]]
    return HottestFunction(name, float(share[deepest]), frame_place(name, facts.rank))
