"""Waits of a watched process at the end of a save: flushing, renaming or copying the file."""

from __future__ import annotations

import re

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.lines.source_lines import own_frame
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Timeline

_LINE = re.compile(r"\(\d+\)")


def finishing_waits(timeline: Timeline) -> I64:
    """Return the rows of waits in a saving function, right after its save."""
    host, waits = timeline.host, timeline.rows_of(Role.BLOCKED)
    saves = timeline.rows_of(Role.CHECKPOINT)
    saves = saves[host.kind[saves] != HostKind.PYTHON]
    if not len(waits) or not len(saves):
        return np.empty(0, np.int64)
    writers = {_function_of(timeline, row) for row in _samples_inside(timeline, saves)} - {""}
    by_writers = [_function_of(timeline, row) in writers for row in waits]
    return waits[np.array(by_writers) & _follow_save(timeline, saves, waits)]


def _follow_save(timeline: Timeline, saves: I64, waits: I64) -> Mask:
    """Whether the last recorded call on a wait's thread was a finished save."""
    host, follows = timeline.host, np.zeros(len(waits), dtype=bool)
    calls = np.flatnonzero((host.detail < 0) & (host.kind != HostKind.PYTHON))
    calls = np.setdiff1d(calls, timeline.rows_of(Role.GC))
    for thread in np.unique(host.thread[saves]):
        own = calls[host.thread[calls] == thread]
        own_waits = host.thread[waits] == thread
        latest = np.searchsorted(host.start[own], host.start[waits[own_waits]], side="left") - 1
        call = own[np.maximum(latest, 0)]
        finished = host.end[call] <= host.start[waits[own_waits]]
        follows[own_waits] = (latest >= 0) & np.isin(call, saves) & finished
    return follows


def _samples_inside(timeline: Timeline, calls: I64) -> I64:
    host = timeline.host
    rows = np.flatnonzero(host.detail >= 0)
    parts = []
    for call in calls:
        inside = (host.start[rows] >= host.start[call]) & (host.start[rows] < host.end[call])
        parts.append(rows[inside & (host.thread[rows] == host.thread[call])])
    return np.concatenate(parts)


def _function_of(timeline: Timeline, row: np.int64) -> str:
    stack = timeline.details[timeline.host.detail[row]].stack
    return _LINE.sub("", own_frame(stack), count=1)
