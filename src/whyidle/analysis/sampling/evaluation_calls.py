"""Evaluations in a loop of compiled calls. Stack samples hit some of their time; the calls that
samples show inside one are recorded, and so tell when each began and ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents, HostKind, Timeline

FEWEST: Final = 5
"""least calls of a function that samples show inside evaluations"""
RARELY: Final = 0.5
"""share of the steps from which a function that evaluations call is part of training, too"""


def with_evaluation_calls(timeline: Timeline) -> Timeline:
    """Return the process with an event around the calls of each evaluation between two steps."""
    host = timeline.host
    seen = timeline.rows_of(Role.EVALUATION)
    seen = seen[host.kind[seen] == HostKind.PYTHON]
    steps = timeline.rows_of(Role.OPTIMIZER)
    if not len(seen) or not len(timeline.rows_of(Role.EXECUTION)):
        return timeline
    home, begin = host.thread[seen[0]], np.sort(host.start[steps])
    calls = np.flatnonzero((host.kind == HostKind.OP) & (host.detail < 0) & (host.thread == home))
    calls = np.setdiff1d(calls, timeline.rows_of(Role.OPTIMIZER_OPERATORS))
    after = np.searchsorted(begin, host.start[calls])  # which step's call they follow
    inside = union_of(host.start[seen], host.end[seen]).contains_times(host.start[calls])
    names = [
        name
        for name in np.unique(host.name[calls[inside]])
        if inside[own := host.name[calls] == name].sum() >= FEWEST
        and len(np.unique(after[own])) < RARELY * len(begin)
    ]
    chosen = is_among(host.name[calls], names)
    calls, after = calls[chosen], after[chosen]
    if not len(calls):
        return timeline
    start, end = _windows_of(timeline, calls, after, begin)
    label = np.bincount(host.name[seen]).argmax()
    found = HostEvents.from_columns(start, end, kind=HostKind.PYTHON, name=label, thread=home)
    return replace(timeline, host=host.join(found))


def _windows_of(timeline: Timeline, calls: I64, after: I64, steps: I64) -> tuple[I64, I64]:
    """Begin and end of the calls between each two steps, with reads until the next batch."""
    host, reads = timeline.host, timeline.rows_of(Role.SYNC)
    first = np.unique(after, return_index=True)[1]
    start, end = host.start[calls[first]], np.maximum.reduceat(host.end[calls], first)
    bounds = np.sort(np.append(steps, host.start[timeline.rows_of(Role.LOADER)]))
    limit = np.append(bounds, np.iinfo(np.int64).max)[np.searchsorted(bounds, end)]
    last = np.searchsorted(host.start[reads], limit) - 1
    read_end = np.append(host.end[reads], 0)[last]  # before the first one there is none
    return start, np.maximum(end, read_end)
