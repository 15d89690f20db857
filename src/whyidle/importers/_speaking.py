"""For which time each stack sample speaks.

A sample inside a recorded call speaks for the rest of that call at most. One between calls speaks
for its own stretch between them, and for stretches without a sample that follow a call of the same
name: those are the same phase of other steps. So what happens between calls gets the share of the
time that it really had, even where steps are shorter than the time between two looks.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

LONGEST_NS = 500_000_000
"""a sample speaks for at most this long"""
_CALL = re.compile(
    r"^(whyidle::(backward|optimizer|compile)|Optimizer\.step#|enumerate\(DataLoader\)|save_checkpoint|"
    r"Python GC|gc\.collect)"
)


def spoken_for(
    spans: NDArray[Any], samples: NDArray[Any], names: list[str]
) -> tuple[I64, I64, I64]:
    """Samples (rows, some of them several times) with begin and end of what they speak for, ns."""
    called = np.array([bool(_CALL.match(name)) for name in names] + [False], dtype=bool)
    found = [(np.empty(0, np.int64),) * 3]
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero(samples["thread"] == thread)
        mine = spans[(spans["thread"] == thread) & called[spans["name"].astype(np.int64)]]
        begin, end, after = _merged(mine)
        row, start, stop = _thread(samples["time"][rows].astype(np.int64), begin, end, after)
        found.append((rows[row], start, stop))
    rows, start, stop = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(start, kind="stable")
    return rows[order], start[order], stop[order]


def dated(spans: NDArray[Any], samples: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Samples at the moment that their stacks are from.

    A look that had to wait for the interpreter's lock shows what ran when it got it. Where that is
    in another call, or between other calls, than where the look was wanted, it tells nothing of the
    latter: it is moved, and says no longer that Python ran. Stretches that lose their only sample
    are spoken for by samples of the same phase in other steps.
    """
    called = np.array([bool(_CALL.match(name)) for name in names] + [False], dtype=bool)
    moved = samples.copy()
    got = samples["time"].astype(np.int64) + samples["held"].astype(np.int64) * 1000
    for thread in np.unique(samples["thread"]):
        rows = np.flatnonzero((samples["thread"] == thread) & (samples["held"] > 0))
        mine = spans[(spans["thread"] == thread) & called[spans["name"].astype(np.int64)]]
        begin, end, _ = _merged(mine)
        edges = np.sort(np.concatenate([begin, end]))
        wanted = samples["time"][rows].astype(np.int64)
        crossed = rows[np.searchsorted(edges, wanted) != np.searchsorted(edges, got[rows])]
        moved["time"][crossed], moved["held"][crossed] = got[crossed], 0
    return moved


def _merged(spans: NDArray[Any]) -> tuple[I64, I64, I64]:
    """Disjoint calls: begin, end, and the name of the one that ends each."""
    spans = spans[np.argsort(spans["start"], kind="stable")]
    if not len(spans):
        return (np.empty(0, np.int64),) * 3
    start, end = spans["start"].astype(np.int64), spans["end"].astype(np.int64)
    reach = np.maximum.accumulate(end)
    first = np.append(True, start[1:] > reach[:-1])
    group = np.cumsum(first) - 1
    last = np.zeros(group[-1] + 1, np.int64)
    last[group] = np.arange(len(spans))
    return start[first], reach[last], spans["name"][first].astype(np.int64)


def _thread(time: I64, begin: I64, end: I64, after: I64) -> tuple[I64, I64, I64]:
    gap = np.searchsorted(begin, time, side="right")  # stretch ``gap`` ends where call ``gap`` does
    inside = (gap > 0) & (time < np.append(0, end)[gap])
    following = np.append(time[1:], time[-1:] + LONGEST_NS)
    opens = np.append(time[:1], end)  # begin and end of every stretch between calls
    closes = np.append(begin, np.maximum(time[-1:], end[-1:] if len(end) else time[-1:]))
    same = np.append(False, (gap[1:] == gap[:-1]) & ~inside[1:] & ~inside[:-1])
    start = np.where(inside | same, time, np.minimum(opens[gap], time))
    stop = np.where(
        inside, np.append(0, end)[gap], np.where(np.append(same[1:], False), following, closes[gap])
    )
    start = np.maximum(start, time - LONGEST_NS)
    stop = np.clip(np.minimum(stop, np.maximum(following, start)), time, time + LONGEST_NS)
    stop = np.where(
        ~inside & ~np.append(same[1:], False), np.minimum(closes[gap], time + LONGEST_NS), stop
    )
    row, low, high = _elsewhere(time, gap, inside, (opens, closes), np.append(-1, after))
    return (
        np.concatenate([np.arange(len(time)), row]),
        np.concatenate([start, low]),
        np.concatenate([np.maximum(stop, start), high]),
    )


def _elsewhere(
    time: I64, gap: I64, inside: NDArray[np.bool_], stretches: tuple[I64, I64], after: I64
) -> tuple[I64, I64, I64]:
    """Stretches without a sample, each given to the nearest sample of the same phase."""
    opens, closes = stretches
    seen = np.zeros(len(opens), dtype=bool)
    seen[gap[~inside]] = True
    empty = np.flatnonzero(~seen & (closes > opens) & (closes - opens < LONGEST_NS))
    rows = np.full(len(empty), -1, np.int64)
    for name in np.unique(after[empty]):
        donors = np.flatnonzero(~inside & (after[gap] == name))
        wanted = after[empty] == name
        if len(donors):
            at = np.searchsorted(time[donors], opens[empty[wanted]])
            left, right = donors[np.maximum(at - 1, 0)], donors[np.minimum(at, len(donors) - 1)]
            moment = opens[empty[wanted]]
            nearer = np.abs(time[right] - moment) < np.abs(time[left] - moment)
            rows[wanted] = np.where(nearer, right, left)
    told = rows >= 0
    return rows[told], opens[empty[told]], closes[empty[told]]
