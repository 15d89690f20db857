"""Lines of a watched program at which the host waits for its device."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.source_lines import in_library
from whyidle.model.cause import MOST_PLACES
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

RARE = 0.1
"""lines in a smaller share of the samples do not matter"""


def waiting_lines(facts: Facts) -> tuple[Place, ...]:
    """Return the user's lines sampled inside such waits in scope, the most frequent first."""
    host, samples = facts.timeline.host, facts.timeline.looks
    waits = facts.rows_of(Role.DEVICE_READ)
    if samples is None:
        return ()
    times = samples.time[union_of(host.start[waits], host.end[waits]).contains_times(samples.time)]
    return lines_at(facts, times, host.thread[waits])


def lines_at(facts: Facts, times: I64, threads: NDArray[np.int16]) -> tuple[Place, ...]:
    """Return the user's lines sampled at some moments on some threads, the most frequent first."""
    host = facts.timeline.host
    samples = np.flatnonzero((host.detail >= 0) & is_among(host.thread, np.unique(threads)))
    rows = np.searchsorted(host.start[samples], times, side="right") - 1
    rows = samples[rows[rows >= 0]]
    counts_by_place: Counter[Place] = Counter()
    _, first, counts = np.unique(host.detail[rows], return_index=True, return_counts=True)
    for row, count in zip(rows[first], counts, strict=True):
        place = facts.places.place_of(int(row))
        if place is not None and not in_library(place):
            counts_by_place[place] += int(count)
    common = counts_by_place.most_common(MOST_PLACES)
    return tuple(place for place, count in common if count >= RARE * len(times))
