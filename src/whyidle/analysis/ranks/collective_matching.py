"""Match the collectives of one rank with those of the others. All ranks of a process group issue
the same collectives in the same order, so the n-th of a group in a step is the same everywhere.
Where recordings hold different events (sampled, cut, filtered), collectives of one kind and size
that end together are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.ranks.collectives import JOINT, Collectives

LEAST_MATCHED = 0.8
"""with less than this share matched by order, a group is matched by time"""
TOGETHER_NS = 500_000
"""matched by time, ranks leave a collective within this; clocks are trusted no further"""
MOST_PAIRS = 2_000
"""largest number of a rank's collectives that vote for the offset of its clock"""


class MatchedCollectives(Struct, frozen=True, eq=False):
    """Collectives by (meeting, rank); see ``rank_meetings.Meetings``. ``start`` counts from each
    rank's own base plus ``base``; ``blur_ns`` is the least clock error that the matching allows."""

    start: I64
    duration: I64
    present: Mask
    step: I64
    kind: NDArray[np.str_]
    bytes: I64
    base: I64
    blur_ns: float
    notes: tuple[str, ...]


class _AllCollectives(Struct, frozen=True, eq=False):
    rank: I64
    start: I64
    end: I64
    kind: NDArray[np.str_]
    group: I64
    label: I64
    step: I64
    elements: I64
    bytes: I64

    def __len__(self) -> int:
        return len(self.rank)


def match_collectives(
    own: Sequence[Collectives], labels: Sequence[Sequence[str]], base: I64
) -> MatchedCollectives:
    """Match the collectives of all ranks by the ``labels`` of their steps. ``base`` is added to
    each rank's times to count from the first one's base, ns."""
    table = _join_ranks(own, labels, base)
    meeting, notes = _by_order(table), []
    blur = 0.0
    for group in np.unique(table.group):
        rows = np.flatnonzero(table.group == group)
        ranks, counts = np.unique(table.rank[rows], return_counts=True)
        good = np.unique(meeting[rows[meeting[rows] >= 0]])
        if len(ranks) < 2 or len(good) >= LEAST_MATCHED * counts.min():
            continue
        timed = _by_time(table, rows, ranks)
        meeting[rows] = np.where(timed >= 0, timed + meeting.max() + 1, -1)
        matched = len(np.unique(timed[timed >= 0]))
        blur = TOGETHER_NS
        notes.append(
            f"ranks recorded different collectives; {matched} of {counts.min()} are matched by "
            "the time they end"
        )
    return _make_table(table, meeting, ranks=len(own), base=base, blur=blur, notes=tuple(notes))


def _join_ranks(
    own: Sequence[Collectives], labels: Sequence[Sequence[str]], base: I64
) -> _AllCollectives:
    rank = np.repeat(np.arange(len(own)), [len(c) for c in own])
    kind = np.concatenate([c.kind for c in own])
    group = np.concatenate([c.group for c in own])
    lane = np.concatenate([c.lane for c in own]).astype("U8")
    step = np.concatenate([c.step for c in own])
    named = np.where(group == "", np.char.add("/", lane), group)
    _, number = np.unique(
        np.concatenate([np.array(part, str) for part in labels]), return_inverse=True
    )
    first = np.concatenate([[0], np.cumsum([len(part) for part in labels])])[:-1]
    label = np.where(step >= 0, number[first[rank] + np.maximum(step, 0)], -1)
    return _AllCollectives(
        rank=rank,
        start=np.concatenate([c.start for c in own]) + base[rank],
        end=np.concatenate([c.end for c in own]) + base[rank],
        kind=kind,
        group=np.unique(named, return_inverse=True)[1].ravel().astype(np.int64),
        label=label.astype(np.int64),
        step=step,
        elements=np.concatenate([c.elements for c in own]),
        bytes=np.concatenate([c.bytes for c in own]),
    )


def _by_order(table: _AllCollectives) -> I64:
    """The meeting of each collective: the n-th of its group in its step; -1 where ranks
    disagree."""
    meeting = np.full(len(table), -1, np.int64)
    rows = np.flatnonzero(table.label >= 0)
    rows = rows[
        np.lexsort((table.start[rows], table.rank[rows], table.label[rows], table.group[rows]))
    ]
    if not len(rows):
        return meeting
    cell = table.group[rows] * (table.label.max() + 1) + table.label[rows]
    new = np.flatnonzero(_value_changes(cell) | _value_changes(table.rank[rows]))
    length = np.diff(np.append(new, len(rows)))
    nth = np.arange(len(rows)) - np.repeat(new, length)
    _, number = np.unique(cell, return_inverse=True)
    even = _has_even_runs(number[new], length)[number]
    key = number * (int(nth.max()) + 1) + nth
    meeting[rows] = np.where(even, np.unique(key, return_inverse=True)[1], -1)
    return _agreed_meetings(table, meeting)


def _value_changes(values: I64) -> Mask:
    return np.concatenate([[True], values[1:] != values[:-1]])


def _has_even_runs(cell: I64, length: I64) -> Mask:
    most = np.zeros(int(cell.max()) + 1, np.int64)
    least = np.full(len(most), np.iinfo(np.int64).max)
    np.maximum.at(most, cell, length)
    np.minimum.at(least, cell, length)
    return most == least


def _agreed_meetings(table: _AllCollectives, meeting: I64) -> I64:
    rows = np.flatnonzero(meeting >= 0)
    first = _first_rows(meeting, rows)[meeting[rows]]
    unlike = rows[~_may_match(table, rows, first)]
    bad = np.isin(meeting, meeting[unlike])
    return np.where(bad, -1, meeting)


def _first_rows(meeting: I64, rows: I64) -> I64:
    first = np.zeros(int(meeting.max(initial=-1)) + 1, np.int64)
    first[meeting[rows][::-1]] = rows[::-1]
    return first


def _may_match(table: _AllCollectives, left: I64, right: I64) -> Mask:
    """Whether two collectives may be the same; an all-to-all has another size on every rank."""
    sized = (table.elements[left] >= 0) & (table.elements[right] >= 0)
    sized &= np.isin(table.kind[left], ("all_reduce", "all_gather", "reduce_scatter"))
    same: Mask = (table.kind[left] == table.kind[right]) & (
        ~sized | (table.elements[left] == table.elements[right])
    )
    return same


def _by_time(table: _AllCollectives, rows: I64, ranks: I64) -> I64:
    """The meeting of each row, identified by the first rank's row; -1: unmatched."""
    first = rows[table.rank[rows] == ranks[0]]
    meeting_of = {int(row): int(row) for row in first}
    for rank in ranks[1:]:
        meeting_of |= _pair_by_offset(table, first, rows[table.rank[rows] == rank])
    meeting = np.array([meeting_of.get(int(row), -1) for row in rows], np.int64)
    values, counts = np.unique(meeting, return_counts=True)
    return np.where(np.isin(meeting, values[counts > 1]), meeting, -1)


def _pair_by_offset(table: _AllCollectives, theirs: I64, ours: I64) -> dict[int, int]:
    theirs, ours = (rows[np.isin(table.kind[rows], JOINT)][:MOST_PAIRS] for rows in (theirs, ours))
    a, b = (grid.ravel() for grid in np.meshgrid(theirs, ours, indexing="ij"))
    like = _may_match(table, a, b)
    a, b = a[like], b[like]
    apart = table.end[b] - table.end[a]
    if not len(apart):
        return {}
    near = np.abs(apart - _most_common_offset(apart)) <= TOGETHER_NS
    closest = np.argsort(np.abs(apart - _most_common_offset(apart))[near], kind="stable")
    paired: dict[int, int] = {}
    paired_left: set[int] = set()
    for left, other in zip(a[near][closest].tolist(), b[near][closest].tolist(), strict=True):
        if other not in paired and left not in paired_left:
            paired[other] = left
            paired_left.add(left)
    return paired


def _most_common_offset(apart: I64) -> int:
    """The most common difference; of equal ones the smallest, as clocks are synchronised."""
    values = np.sort(apart)
    votes = np.searchsorted(values, values + TOGETHER_NS, side="right") - np.arange(len(values))
    best = np.flatnonzero(votes == votes.max())
    index = int(best[np.argmin(np.abs(values[best]))])
    return int(np.median(values[index : index + int(votes[index])]))


def _make_table(
    table: _AllCollectives,
    meeting: I64,
    *,
    ranks: int,
    base: I64,
    blur: float,
    notes: tuple[str, ...],
) -> MatchedCollectives:
    rows = np.flatnonzero(meeting >= 0)
    _, number = np.unique(meeting[rows], return_inverse=True)
    number = number.ravel()
    counts = np.bincount(number)
    rows, number = rows[counts[number] > 1], number[counts[number] > 1]
    _, number = np.unique(number, return_inverse=True)
    shape = (int(number.max(initial=-1)) + 1, ranks)
    first = np.zeros(shape[0], np.int64)
    first[number[::-1]] = rows[::-1]
    return MatchedCollectives(
        start=_fill_table(shape, number, table.rank[rows], table.start[rows]),
        duration=_fill_table(shape, number, table.rank[rows], (table.end - table.start)[rows]),
        present=_fill_table(shape, number, table.rank[rows], np.ones(len(rows))).astype(bool),
        step=_fill_table(shape, number, table.rank[rows], table.step[rows] + 1) - 1,
        kind=table.kind[first],
        bytes=table.bytes[first],
        base=base,
        blur_ns=blur,
        notes=notes,
    )


def _fill_table(shape: tuple[int, int], row: I64, column: I64, values: NDArray[Any]) -> I64:
    filled = np.zeros(shape, np.int64)
    filled[row, column] = values
    return filled
