"""Nesting against a stack that is walked event by event."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.analysis.partition.nesting import Nesting, is_leaf


@st.composite
def trees(draw):
    """Properly nested events: split a range recursively."""
    events = []

    def fill(low, high, depth):
        at = low
        while at + 2 <= high and len(events) < 40 and draw(st.booleans()):
            begin = draw(st.integers(at, high - 2))
            end = draw(st.integers(begin + 1, high))
            events.append((begin, end))
            if depth < 4 and end - begin > 3:
                fill(begin + 1, end - 1, depth + 1)
            at = end

    fill(0, 60, 0)
    events.sort(key=lambda e: (e[0], -e[1]))
    return events


@settings(deadline=None)
@given(trees())
def test_innermost_and_enclosing(events):
    start = np.array([e[0] for e in events], dtype=np.int64)
    end = np.array([e[1] for e in events], dtype=np.int64)
    nesting = Nesting.nest_events(start, end)
    times = np.arange(0, 61)
    found = nesting.innermost_at(times)
    for t in times:
        covering = [i for i, (a, b) in enumerate(events) if a <= t < b]
        assert nesting.enclosing_rows(int(t)) == covering
        assert found[t] == (covering[-1] if covering else -1)


@settings(deadline=None)
@given(trees())
def test_leaves_enclose_nothing(events):
    start = np.array([e[0] for e in events], dtype=np.int64)
    end = np.array([e[1] for e in events], dtype=np.int64)
    leaves = is_leaf(start, end)
    for i, (a, b) in enumerate(events):
        inside = [j for j, (c, d) in enumerate(events) if j != i and a <= c and d <= b and j > i]
        assert leaves[i] == (not inside)


def test_empty():
    empty = np.empty(0, np.int64)
    nesting = Nesting.nest_events(empty, empty)
    assert nesting.innermost_at(np.array([3])).tolist() == [-1]
    assert len(is_leaf(empty, empty)) == 0
