"""Whose code computes unfused attention: a library that can fuse it, or the script."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.lines.source_lines import in_library
from whyidle.model.cause import MOST_PLACES
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

SWITCHES = {"framework": Role.OWN_ATTENTION, "models": Role.MODEL_LIBRARY_ATTENTION}
"""library -> role of the frames of its unfused attention"""


def attention_libraries(facts: Facts) -> tuple[str, ...] | None:
    """Libraries whose attention appears in recorded frames and stack samples of the run; None
    without frames."""
    runs = [facts] if facts.live is None else [facts, facts.live]
    frames = [frame for run in runs for frame in _recorded_frames(run)]
    if not frames:
        return None
    plays = facts.timeline.vocabulary.plays
    return tuple(
        library for library, role in SWITCHES.items() if any(plays(role, text) for text in frames)
    )


def _recorded_frames(facts: Facts) -> list[str]:
    timeline = facts.timeline
    called = used_codes(timeline.host.name[timeline.host.kind == HostKind.PYTHON])
    stacks = [detail.stack for detail in timeline.details if detail.stack]
    return [*(timeline.names[i] for i in called), *stacks]


def lines_calling(facts: Facts, *roles: Role) -> tuple[Place, ...]:
    """The user's lines that call frames of some roles, by number of stack samples."""
    run = facts.live or facts
    host, details, plays = run.timeline.host, run.timeline.details, run.timeline.vocabulary.plays
    matches = [
        i for i, detail in enumerate(details) if any(plays(role, detail.stack) for role in roles)
    ]
    rows = np.flatnonzero(np.isin(host.detail, matches))
    counts = Counter(run.places.place_of(int(row)) for row in rows)
    places = [place for place, _ in counts.most_common() if place is not None]
    return tuple(place for place in places if not in_library(place))[:MOST_PLACES]
