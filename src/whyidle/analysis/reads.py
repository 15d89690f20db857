"""Lines of a watched program at which the host waits for its device."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.codes import among
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union
from whyidle.analysis.places import in_library
from whyidle.model.diagnosis import Place
from whyidle.model.timeline import HostKind

WAITS = r"Synchronize( \(Tensor\.\w+\))?$"
"""how the probe names calls that wait for a device"""
MOST_PLACES = 3


def waiting_lines(facts: Facts) -> tuple[Place, ...]:
    """The user's lines that stack samples show inside such calls in scope, most often seen first;
    a line is seen the more often the longer it waits."""
    host = facts.timeline.host
    waits = facts.named(WAITS, HostKind.RUNTIME)
    spans = union(host.start[waits], host.end[waits])
    samples = np.flatnonzero((host.detail >= 0) & among(host.thread, np.unique(host.thread[waits])))
    samples = samples[spans.covers(host.start[samples])]
    seen: Counter[Place] = Counter()
    _, first, counts = np.unique(host.detail[samples], return_index=True, return_counts=True)
    for row, count in zip(samples[first], counts, strict=True):
        place = facts.places.of(int(row))
        if place is not None and not in_library(place):
            seen[place] += int(count)
    return tuple(place for place, _ in seen.most_common(MOST_PLACES))
