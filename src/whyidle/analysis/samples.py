"""Which lines of the user's program the stack samples of a watched process point at."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.places import frame_place, in_library
from whyidle.model.diagnosis import Place
from whyidle.model.timeline import HostKind


def busiest(facts: Facts, spans: Intervals, most: int = 3) -> tuple[Place, ...]:
    """The user's lines that most samples in some time point at."""
    timeline, host = facts.timeline, facts.timeline.host
    rows = np.flatnonzero((host.detail >= 0) & (host.kind == HostKind.PYTHON))
    spent: Counter[str] = Counter()
    inside = spans.inside(host.start[rows], host.end[rows])
    for row, time in zip(rows[inside > 0], inside[inside > 0], strict=True):
        spent[timeline.details[host.detail[row]].stack] += int(time)
    lines: Counter[str] = Counter()
    for stack, time in spent.items():
        lines[_own_line(stack)] += time
    found = [frame_place(text, facts.rank) for text, _ in lines.most_common(most)]
    return tuple(place for place in found if place is not None)


def _own_line(stack: str) -> str:
    frames = stack.split(";")
    for text in frames:
        place = frame_place(text, None)
        if place is not None and not in_library(place):
            return text
    return frames[0]
