"""Interval algebra against bitmaps: slow, obvious, and the oracle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whyidle.analysis.intervals import EMPTY, Intervals, union_of

SIZE = 60
pairs = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=12)


def build(raw) -> Intervals:
    starts = np.array([min(p) for p in raw], dtype=np.int64)
    ends = np.array([max(p) for p in raw], dtype=np.int64)
    return union_of(starts, ends)


def bitmap(intervals: Intervals) -> np.ndarray:
    bits = np.zeros(SIZE + 1, dtype=bool)
    for start, end in zip(intervals.start, intervals.end, strict=True):
        bits[start:end] = True
    return bits


def raw_bitmap(raw) -> np.ndarray:
    bits = np.zeros(SIZE + 1, dtype=bool)
    for a, b in raw:
        bits[min(a, b) : max(a, b)] = True
    return bits


@given(pairs)
def test_union_is_disjoint_sorted_and_complete(raw):
    made = build(raw)
    assert (bitmap(made) == raw_bitmap(raw)).all()
    assert (made.end > made.start).all()
    assert (made.start[1:] > made.end[:-1]).all()


@given(pairs, pairs)
def test_algebra_matches_bitmaps(left, right):
    a, b = build(left), build(right)
    assert (bitmap(a - b) == (raw_bitmap(left) & ~raw_bitmap(right))).all()
    assert (bitmap(a & b) == (raw_bitmap(left) & raw_bitmap(right))).all()
    assert (bitmap(a | b) == (raw_bitmap(left) | raw_bitmap(right))).all()


@given(pairs, st.lists(st.integers(0, SIZE), min_size=1, max_size=8))
def test_before_and_covers(raw, times):
    made, bits = build(raw), raw_bitmap(raw)
    at = np.array(times, dtype=np.int64)
    assert made.length_before(at).tolist() == [int(bits[:t].sum()) for t in times]
    assert made.contains_times(at).tolist() == [bool(bits[t]) for t in times]


@given(pairs, st.integers(0, SIZE), st.integers(0, SIZE))
def test_within(raw, a, b):
    low, high = min(a, b), max(a, b)
    window = np.zeros(SIZE + 1, dtype=bool)
    window[low:high] = True
    assert (bitmap(build(raw).clip_to(low, high)) == (raw_bitmap(raw) & window)).all()


def test_empty():
    assert EMPTY.total == 0
    assert len(EMPTY & EMPTY) == len(EMPTY | EMPTY) == len(EMPTY - EMPTY) == 0
