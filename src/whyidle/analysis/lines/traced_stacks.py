"""Stacks of the training thread in a profiler trace with Python functions, with the time that each
is on top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.partition.nesting import Nesting
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.timeline import HostKind

MOST_CALLS: Final = 300_000
"""calls of Python functions in a recording up to which they are nested: a few seconds of work"""


class StackTime(NamedTuple):
    """A stack, innermost frame first, and its time in the steps in scope, ns."""

    stack: str
    time: int
    waits: int
    """time of it in which the device is idle"""


def traced_stacks(facts: StepScope) -> Iterator[StackTime]:
    """Yield the stacks of the thread with most recorded Python; none of a recording without."""
    host = facts.timeline.host
    rows = np.flatnonzero(host.kind == HostKind.PYTHON)
    rows = rows[np.isin(host.thread[rows], facts.host.drivers)]
    if not 0 < len(rows) <= MOST_CALLS:
        return
    threads, counts = np.unique(host.thread[rows], return_counts=True)
    rows = rows[host.thread[rows] == threads[np.argmax(counts)]]
    nesting = Nesting.nest_events(host.start[rows], host.end[rows])
    parents = _parents_of(nesting)
    paths, calls = _number_paths(nesting, parents, host.name[rows].astype(np.int64))
    begin, end, top = _stretches(facts, nesting)
    time = np.bincount(paths[top], weights=end - begin, minlength=len(calls))
    idle = facts.idle.length_inside(begin, end)
    waits = np.bincount(paths[top], weights=idle, minlength=len(calls))
    names, named, above = facts.timeline.names, host.name[rows].tolist(), parents.tolist()
    for path in np.flatnonzero(time):
        frames, call = [], int(calls[path])
        while call >= 0:
            frames.append(names[named[call]])
            call = above[call]
        yield StackTime(";".join(frames), int(time[path]), int(waits[path]))


def _parents_of(nesting: Nesting) -> I64:
    """The call around each call, or -1."""
    parents = np.full(len(nesting.start), -1, dtype=np.int64)
    for outer, inner in zip(nesting.levels, nesting.levels[1:], strict=False):
        index = np.searchsorted(nesting.start[outer], nesting.start[inner], side="right") - 1
        parents[inner] = outer[index]
    return parents


def _number_paths(nesting: Nesting, parents: I64, names: I64) -> tuple[I64, I64]:
    """A number per call, the same for equal stacks, and one call of each number."""
    paths = np.zeros(len(parents), dtype=np.int64)
    calls: list[I64] = []
    known, count = np.unique(names), 0
    for level in nesting.levels:
        above = np.where(parents[level] >= 0, paths[parents[level]], -1)
        pairs = above * len(names) + np.searchsorted(known, names[level])
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        paths[level] = count + inverse
        calls.append(level[first])
        count += len(first)
    return paths, np.concatenate(calls) if calls else np.empty(0, dtype=np.int64)


def _stretches(facts: StepScope, nesting: Nesting) -> tuple[I64, I64, I64]:
    """Times in scope in which one call is on top: begin, end and call."""
    scope = facts.host_scope
    edges = np.unique(np.concatenate([nesting.start, nesting.end, scope.start, scope.end]))
    begin, end = edges[:-1], edges[1:]
    inside = scope.contains_times(begin)
    begin, end = begin[inside], end[inside]
    top = nesting.innermost_at(begin)
    known = top >= 0
    return begin[known], end[known], top[known]
