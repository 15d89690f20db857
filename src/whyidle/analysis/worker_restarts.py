"""When a loader with worker processes starts them, and waits for the old ones to end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.model.loading import Iterator, Loading

I64 = NDArray[np.int64]


def begun_and_ended(loading: Loading) -> Intervals:
    """From the making of each iterator with new workers to its first batch, and the last call
    of each iterator before it, which waits for its workers to end."""
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
    """When iterators with new workers were made during a scope, ns."""
    made = [iterator.start for iterator in loading.iterators if _has_new_workers(loading, iterator)]
    times = np.sort(np.array(made, dtype=np.int64))
    return times[scope.contains_times(times)]


def held_up(windows: Intervals, idle: Intervals, made: I64, cost: float, share: float = 0.0) -> int:
    """For how long the device would stand still less, were no workers to start and end, ns.

    What the host would still be held up for each new iterator costs the device only what the work
    in its queue does not outlast, as it does now.

    Args:
        windows: of ``begun_and_ended``.
        idle: when the device waited for a batch.
        made: ``worker_starts``; the end of the workers before it belongs to each.
        cost: that a kept worker needs for its first batch, ns.
        share: of the windows that remains beside, 0 to 1.
    """
    group = np.searchsorted(made, windows.start)
    count = len(made) + 1
    length = np.bincount(group, windows.length, count)
    still = np.bincount(group, idle.length_inside(windows.start, windows.end), count)
    left = np.append(np.full(len(made), cost), 0.0) + share * length - (length - still)
    return int((still - np.clip(left, 0.0, still)).sum())


def _has_new_workers(loading: Loading, iterator: Iterator) -> bool:
    return bool(loading.loaders[iterator.loader].workers)
