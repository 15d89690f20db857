"""Which waits of a watched process are the end of a save: the file goes to the disk, gets its name,
is copied away."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.source_places import own_frame
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Timeline

I64 = NDArray[np.int64]

_LINE = re.compile(r"\(\d+\)")


def finishing_waits(timeline: Timeline) -> I64:
    """Rows of waits that finish a save: nothing was called since, and the function that saved is
    the one that waits. Elsewhere in the program a wait is none of the save's."""
    host, waits = timeline.host, timeline.rows_of(Role.BLOCKED)
    saves = timeline.rows_of(Role.CHECKPOINT)
    saves = saves[host.kind[saves] != HostKind.PYTHON]
    if not len(waits) or not len(saves):
        return np.empty(0, np.int64)
    writers = _functions_of(timeline, _samples_inside(timeline, saves)) - {""}
    mine = [_function_of(timeline, row) in writers for row in waits]
    return waits[np.array(mine) & _follow_save(timeline, saves, waits)]


def _follow_save(timeline: Timeline, saves: I64, waits: I64) -> NDArray[np.bool_]:
    """Whether the last recorded call on a wait's thread was a save, and is over."""
    host, found = timeline.host, np.zeros(len(waits), dtype=bool)
    calls = np.flatnonzero((host.detail < 0) & (host.kind != HostKind.PYTHON))
    calls = np.setdiff1d(calls, timeline.rows_of(Role.GC))
    for thread in np.unique(host.thread[saves]):
        mine = calls[host.thread[calls] == thread]
        here = host.thread[waits] == thread
        latest = np.searchsorted(host.start[mine], host.start[waits[here]], side="left") - 1
        call = mine[np.maximum(latest, 0)]
        over = host.end[call] <= host.start[waits[here]]
        found[here] = (latest >= 0) & np.isin(call, saves) & over
    return found


def _samples_inside(timeline: Timeline, calls: I64) -> I64:
    """Stack samples that fall into some calls on their thread."""
    host = timeline.host
    rows = np.flatnonzero(host.detail >= 0)
    found = [
        rows[
            (host.thread[rows] == host.thread[call])
            & (host.start[rows] >= host.start[call])
            & (host.start[rows] < host.end[call])
        ]
        for call in calls
    ]
    return np.concatenate(found)


def _functions_of(timeline: Timeline, rows: I64) -> set[str]:
    return {_function_of(timeline, row) for row in rows}


def _function_of(timeline: Timeline, row: np.int64) -> str:
    """The user's function that a stack sample was in, without its line."""
    stack = timeline.details[timeline.host.detail[row]].stack
    return _LINE.sub("", own_frame(stack), count=1)
