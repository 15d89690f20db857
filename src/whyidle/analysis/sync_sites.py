"""Lines of a watched program at which the host waits for its device."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.source_places import in_library
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

I64 = NDArray[np.int64]
MOST_PLACES = 3
RARE = 0.1
"""of these looks: a line that fewer find is none that matters"""


def waiting_lines(facts: Facts) -> tuple[Place, ...]:
    """The user's lines that looks at random moments found inside such calls in scope, most often
    found first: a line is found the more often the longer it waits."""
    host, looks = facts.timeline.host, facts.timeline.looks
    waits = facts.rows_of(Role.DEVICE_READ)
    if looks is None:
        return ()
    times = looks.time[union_of(host.start[waits], host.end[waits]).contains_times(looks.time)]
    return lines_at(facts, times, host.thread[waits])


def lines_at(facts: Facts, times: I64, threads: NDArray[np.int16]) -> tuple[Place, ...]:
    """The user's lines that looks at some moments found on some threads, most often found first."""
    host = facts.timeline.host
    samples = np.flatnonzero((host.detail >= 0) & is_among(host.thread, np.unique(threads)))
    found = np.searchsorted(host.start[samples], times, side="right") - 1
    found = samples[found[found >= 0]]
    seen: Counter[Place] = Counter()
    _, first, counts = np.unique(host.detail[found], return_index=True, return_counts=True)
    for row, count in zip(found[first], counts, strict=True):
        place = facts.places.place_of(int(row))
        if place is not None and not in_library(place):
            seen[place] += int(count)
    return tuple(
        place for place, count in seen.most_common(MOST_PLACES) if count >= RARE * len(times)
    )
