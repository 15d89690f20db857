"""Nesting of host events of one thread, without a loop over events. At any event's start the number
of enclosing events is its depth; events of one depth do not overlap, so finding an encloser takes a
binary search per depth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import I64, Mask


class Nesting(Struct, frozen=True, eq=False):
    """Events of one thread by depth. ``levels[d]`` are the rows at depth d, sorted by start, and
    ``begins[d]`` their starts."""

    start: I64
    end: I64
    levels: tuple[I64, ...]
    begins: tuple[I64, ...]

    @classmethod
    def nest_events(cls, start: I64, end: I64) -> Nesting:
        """Nest events sorted by (start, longest first)."""
        closed = np.searchsorted(np.sort(np.maximum(end, start + 1)), start, side="right")
        depth = np.arange(len(start)) - closed
        order = np.argsort(depth, kind="stable")
        edges = np.searchsorted(depth[order], np.arange(depth.max(initial=-1) + 2))
        levels = tuple(order[a:b] for a, b in pairwise(edges))
        return cls(start, end, levels, tuple(start[rows] for rows in levels))

    def innermost_at(self, times: I64) -> I64:
        """Return the row of the innermost event that covers each time, or -1."""
        innermost = np.full(len(times), -1, dtype=np.int64)
        for rows, begin in zip(self.levels, self.begins, strict=True):
            index = np.searchsorted(begin, times, side="right") - 1
            row = rows[np.maximum(index, 0)]
            covers = (index >= 0) & (times < self.end[row])
            innermost[covers] = row[covers]
        return innermost

    def enclosing_rows(self, time: int) -> list[int]:
        """Return the rows of all events that cover a time, outermost first."""
        rows = []
        for level, begin in zip(self.levels, self.begins, strict=True):
            index = int(begin.searchsorted(time, side="right")) - 1
            if index >= 0 and time < self.end[level[index]]:
                rows.append(int(level[index]))
        return rows


def is_leaf(start: I64, end: I64) -> Mask:
    """Return whether each event of a thread, sorted like those of a ``Nesting``, encloses no
    other."""
    if not len(start):
        return np.empty(0, dtype=bool)
    following = np.concatenate([start[1:], [np.iinfo(np.int64).max]])
    return following >= np.maximum(end, start + 1)
