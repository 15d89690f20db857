"""Who wrote attention out: a library that can be told to fuse it, or the script."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from whyidle.analysis.codes import used
from whyidle.analysis.facts import Facts
from whyidle.analysis.places import in_library
from whyidle.model.diagnosis import Place
from whyidle.model.timeline import HostKind

MOST_PLACES = 3

SWITCHES = {
    "torch": re.compile(r"torch[/\\]nn[/\\]functional\.py\(\d+\): multi_head_attention_forward\b"),
    "transformers": re.compile(r"(^|[/\\])transformers[/\\][^;]*: eager_attention_forward\b"),
}
"""library -> how a frame of its written-out attention is told"""
SOFTMAX = re.compile(r"^[^;]*torch[/\\]nn[/\\]functional\.py\(\d+\): softmax;")
"""a stack whose innermost line of Python is that of PyTorch's own function"""


def libraries(facts: Facts) -> tuple[str, ...] | None:
    """Whose attention the recording, and looks of the run around it, were in; None where frames
    were not recorded."""
    seen = [*_frames(facts), *(_frames(facts.live) if facts.live is not None else ())]
    if not seen:
        return None
    return tuple(name for name, frame in SWITCHES.items() if any(map(frame.search, seen)))


def _frames(facts: Facts) -> list[str]:
    timeline = facts.timeline
    called = used(timeline.host.name[timeline.host.kind == HostKind.PYTHON])
    stacks = [one.stack for one in timeline.details if one.stack]
    return [*(timeline.names[i] for i in called), *stacks]


def callers(facts: Facts) -> tuple[Place, ...]:
    """The user's lines from which looks of the run found such a library's attention called, most
    often found first."""
    return _lines(facts, *SWITCHES.values())


def softmaxed(facts: Facts) -> tuple[Place, ...]:
    """The same of a softmax, where it has a frame of its own: ``F.softmax`` and ``nn.Softmax``."""
    return _lines(facts, SOFTMAX)


def _lines(facts: Facts, *frames: re.Pattern[str]) -> tuple[Place, ...]:
    run = facts.live or facts
    host, details = run.timeline.host, run.timeline.details
    told = [i for i, one in enumerate(details) if any(f.search(one.stack) for f in frames)]
    rows = np.flatnonzero(np.isin(host.detail, told))
    seen = Counter(run.places.of(int(row)) for row in rows)
    known = [place for place, _ in seen.most_common() if place is not None]
    return tuple(place for place in known if not in_library(place))[:MOST_PLACES]
