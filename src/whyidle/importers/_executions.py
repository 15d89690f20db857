"""When the device ran the compiled steps of a watched process.

The steps are called on one thread and run beside it, one after the other. How long one runs was
measured in a few of them; in every step the device was found idle or not when the next one was
called, and after each read that waited. A step therefore ends its measured length after its begin,
but never before the last moment at which the device was known to work, nor after the first at which
it was found idle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostEvents, HostKind
from whyidle.probe import wire

DEVICE = "device"
"""name of the thread that stands for the device"""
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
    """Length of each call by the nearest measurement of the same function; 0 without any."""
    lengths = np.zeros(len(rows), np.int64)
    for number in np.unique(events.name[rows]):
        same = measured[[names[i] in names[number] for i in events.name[measured]]]
        own = events.name[rows] == number
        if len(same):
            times, moments = events.start[same], events.start[rows[own]]
            right = np.clip(np.searchsorted(times, moments), 0, len(times) - 1)
            left = np.maximum(right - 1, 0)
            closer = np.abs(times[left] - moments) <= np.abs(times[right] - moments)
            near = same[np.where(closer, left, right)]
            lengths[own] = events.end[near] - events.start[near]
    return lengths


def _run_steps(begin: I64, called: I64, length: I64, idle: HostEvents) -> tuple[I64, I64]:
    """Begin and end of the steps on the device, which runs them in order."""
    order = np.argsort(idle.end, kind="stable")
    found, busy = idle.end[order], idle.start[order]
    start, end, free = begin.copy(), begin.copy(), np.iinfo(np.int64).min
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    for i in range(len(begin)):
        start[i] = max(begin[i], free)
        free = start[i] + length[i]
        mark = np.searchsorted(found, called[i])
        if mark < len(found) and found[mark] <= following[i]:
            free = min(max(free, busy[mark]), found[mark])
        elif i + 1 < len(begin):
            free = max(free, following[i])  # it still worked when the next step was called
        end[i] = free = max(free, start[i])
    return start, end
