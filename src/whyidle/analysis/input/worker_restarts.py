"""When a loader starts worker processes and waits for the old ones to end."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.model.loader_tables import Iterator, Loading


def restart_windows(loading: Loading) -> Intervals:
    """Return the starts of workers to their first batch, and the waits for their ends."""
    first: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}
    for take in loading.takes:
        number = int(take["iterator"])
        first.setdefault(number, int(take["end"]))
        last[number] = int(take["start"]), int(take["end"])
    windows = [
        (iterator.start, first.get(number, iterator.end))
        for number, iterator in enumerate(loading.iterators, 1)
        if _has_new_workers(loading, iterator)
    ]
    windows += [last[number] for number in range(1, len(loading.iterators)) if number in last]
    if not windows:
        return EMPTY
    start, end = np.array(windows, dtype=np.int64).T
    return union_of(start, np.maximum(start, end))


def worker_starts(loading: Loading, scope: Intervals) -> I64:
    """Return when iterators with new workers were created in scope, ns."""
    starts = [
        iterator.start for iterator in loading.iterators if _has_new_workers(loading, iterator)
    ]
    times = np.sort(np.array(starts, dtype=np.int64))
    return times[scope.contains_times(times)]


def held_up(windows: Intervals, idle: Intervals, made: I64, cost: float, share: float = 0.0) -> int:
    """Return how much less the device would idle without worker starts and ends, ns. The device
    loses the host's time per new iterator only beyond the work in its queue, as now.

    ``idle`` is when the device waited for a batch, ``cost`` the time that a persistent worker needs
    for its first batch, ns, ``share`` the remaining share of the windows. Each of ``made`` includes
    the end of the workers before it.
    """
    group = np.searchsorted(made, windows.start)
    count = len(made) + 1
    length = np.bincount(group, windows.length, count)
    idle_ns = np.bincount(group, idle.length_inside(windows.start, windows.end), count)
    remaining = np.append(np.full(len(made), cost), 0.0) + share * length - (length - idle_ns)
    return int((idle_ns - np.clip(remaining, 0.0, idle_ns)).sum())


def _has_new_workers(loading: Loading, iterator: Iterator) -> bool:
    return bool(loading.loaders[iterator.loader].workers)
