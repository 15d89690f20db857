"""When the device ran the compiled steps of a watched process.

The steps are called on one thread and run beside it, one after the other. How long one runs was
measured in a few of them; in every step the device was found idle or not when the next one was
called, and after each read that waited. Steps therefore end their measured lengths after the first
of them was called, but never before the last moment at which the device was known to work, nor
after the first at which it was found idle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostEvents, HostKind
from whyidle.probe import wire

DEVICE = "device"
"""name of the thread that stands for the device"""
NEAREST = 5
I64 = NDArray[np.int64]


Recorded = tuple[HostEvents, list[str], list[str]]


def with_executions(
    events: HostEvents, names: list[str], roles: list[str], thread: int
) -> Recorded:
    """Return events, names and roles with one operator on ``thread`` per compiled step, in place of
    the calls' own operators and of what was measured."""
    coded = np.array([*roles, ""])[events.name]
    calls = (coded == wire.OPTIMIZER) & (events.kind == HostKind.ANNOTATION)
    measured, idle = coded == wire.EXECUTION, coded == wire.DEVICE_IDLE
    rows = np.flatnonzero(calls)
    if not len(rows):
        return events, names, roles
    compiling = np.isin(coded, (wire.COMPILE, wire.RECOMPILE))
    begin = _after_compiling(events, rows, compiling)
    length = _measured_lengths(events, names, rows, np.flatnonzero(measured))
    start, end = _run_steps(begin, events.end[rows], length, events.take_rows(idle))
    called, of_call = np.unique(events.name[rows], return_inverse=True)
    runs = HostEvents.from_columns(
        start, end, kind=HostKind.OP, name=len(names) + of_call, thread=thread
    )
    kept = events.take_rows(~(measured | idle | (coded == wire.OPTIMIZER_OPERATORS)))
    own = [names[i] for i in called]
    return kept.join(runs), [*names, *own], [*roles, *[wire.EXECUTION] * len(own)]


def _after_compiling(events: HostEvents, rows: I64, compiling: NDArray[np.bool_]) -> I64:
    """When each call can have begun to run: after the compilation inside it."""
    ends = np.sort(events.end[compiling])
    if not len(ends):
        return events.start[rows]
    last = np.searchsorted(ends, events.end[rows], side="right") - 1
    return np.maximum(events.start[rows], np.where(last >= 0, ends[np.maximum(last, 0)], 0))


def _measured_lengths(events: HostEvents, names: list[str], rows: I64, measured: I64) -> I64:
    """Length of each call: the median of the nearest ``NEAREST`` measurements of the same function,
    as a core that other threads take lengthens one; 0 without any."""
    lengths = np.zeros(len(rows), np.int64)
    for number in np.unique(events.name[rows]):
        same = measured[[names[i] in names[number] for i in events.name[measured]]]
        if len(same):
            own = events.name[rows] == number
            away = np.abs(events.start[same][:, None] - events.start[rows[own]])
            near = same[np.argsort(away, axis=0, kind="stable")[:NEAREST]]
            lengths[own] = np.median(events.end[near] - events.start[near], axis=0)
    return lengths


def _run_steps(begin: I64, called: I64, length: I64, idle: HostEvents) -> tuple[I64, I64]:
    """Begin and end of the steps on the device, which runs them in order. Where it did not run dry
    between several calls, the host ran ahead: these steps share the time equally."""
    order = np.argsort(idle.end, kind="stable")
    found, busy = idle.end[order], idle.start[order]
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    mark = np.searchsorted(found, called)
    dry = np.append(found, np.iinfo(np.int64).max)[mark] <= following
    dry[-1] = True
    start, end = begin.copy(), begin.copy()
    first = 0
    for last in np.flatnonzero(dry).tolist():
        rows = slice(first, last + 1)
        until = int(begin[first] + length[rows].sum())
        if mark[last] < len(found):
            until = int(min(max(until, busy[mark[last]]), found[mark[last]]))
        until = max(until, int(begin[last]))
        edges = np.linspace(begin[first], until, last - first + 2).astype(np.int64)
        start[rows], end[rows] = edges[:-1], edges[1:]
        first = last + 1
    return start, end
