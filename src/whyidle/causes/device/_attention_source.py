"""Who wrote attention out: a library that can be told to fuse it, or the script."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.codes import used_codes
from whyidle.analysis.facts import Facts
from whyidle.analysis.source_places import in_library
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

MOST_PLACES = 3

SWITCHES = {"framework": Role.OWN_ATTENTION, "models": Role.MODEL_LIBRARY_ATTENTION}
"""library -> what a frame of its written-out attention is"""


def attention_libraries(facts: Facts) -> tuple[str, ...] | None:
    """Whose attention the recording, and looks of the run around it, were in; None where frames
    were not recorded."""
    seen = [
        *_attention_frames(facts),
        *(_attention_frames(facts.live) if facts.live is not None else ()),
    ]
    if not seen:
        return None
    plays = facts.timeline.vocabulary.plays
    return tuple(
        name for name, role in SWITCHES.items() if any(plays(role, frame) for frame in seen)
    )


def _attention_frames(facts: Facts) -> list[str]:
    timeline = facts.timeline
    called = used_codes(timeline.host.name[timeline.host.kind == HostKind.PYTHON])
    stacks = [one.stack for one in timeline.details if one.stack]
    return [*(timeline.names[i] for i in called), *stacks]


def calling_lines(facts: Facts) -> tuple[Place, ...]:
    """The user's lines from which looks of the run found such a library's attention called, most
    often found first."""
    return _sampled_lines(facts, *SWITCHES.values())


def softmax_lines(facts: Facts) -> tuple[Place, ...]:
    """The same of a softmax, where it has a frame of its own: ``F.softmax`` and ``nn.Softmax``."""
    return _sampled_lines(facts, Role.SOFTMAX_CALL)


def _sampled_lines(facts: Facts, *roles: Role) -> tuple[Place, ...]:
    run = facts.live or facts
    host, details, plays = run.timeline.host, run.timeline.details, run.timeline.vocabulary.plays
    told = [i for i, one in enumerate(details) if any(plays(role, one.stack) for role in roles)]
    rows = np.flatnonzero(np.isin(host.detail, told))
    seen = Counter(run.places.place_of(int(row)) for row in rows)
    known = [place for place, _ in seen.most_common() if place is not None]
    return tuple(place for place in known if not in_library(place))[:MOST_PLACES]
