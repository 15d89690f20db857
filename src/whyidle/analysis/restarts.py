"""When a loader with worker processes starts them, and waits for the old ones to end."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.intervals import EMPTY, Intervals, union
from whyidle.model.loading import Iterator, Loading


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
        if _new(loading, iterator)
    ]
    windows += [last[number] for number in range(1, len(loading.iterators)) if number in last]
    if not windows:
        return EMPTY
    start, end = np.array(windows, dtype=np.int64).T
    return union(start, np.maximum(start, end))


def starts(loading: Loading, scope: Intervals) -> int:
    """How many iterators with new workers were made during a scope."""
    made = [iterator.start for iterator in loading.iterators if _new(loading, iterator)]
    return int(scope.covers(np.array(made, dtype=np.int64)).sum())


def _new(loading: Loading, iterator: Iterator) -> bool:
    return bool(loading.settings[iterator.settings].get("workers"))
