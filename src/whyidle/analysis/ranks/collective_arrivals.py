"""Ranks in one clock: who arrives last at a collective, who waits for whom.

All ranks leave an all-reduce (or any collective in which each needs data of each) within
microseconds, so the ends of one collective on two ranks give the offset of their clocks, and their
spread its error. Processes of one machine under our own probe read one clock; there the time in the
collective shows who came last, as a thread that waits for a core leaves late.

The shortest kernel of a collective is the transfer, the excess of the others is waiting, and the
rank with the *least* collective time is the late one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.collective_matching import match_collectives
from whyidle.analysis.ranks.collectives import JOINT

RESOLUTION_NS = 1_000.0
"""profilers before 2024 wrote whole microseconds"""
USUAL = 1.5
"""a collective that took longer than this many times its median over steps was held up"""
LEAST_STEPS = 8
"""steps needed for that median"""
LEAST_ENDS = 3
"""common ends needed to judge a clock's error"""
NEAR_NS = 100_000_000
"""clocks that count from their machines' start are never so close on two machines"""
TRUST = 0.95
"""a clock's error is this quantile of how far ranks seem to leave apart"""


@dataclass(frozen=True, eq=False)
class Meetings:
    """Collectives matched across ranks: arrays by (meeting, rank), by meeting, or by rank."""

    start: F64
    """in the clock of the first rank, ns after its base; valid where ``present``"""
    arrival: F64
    """orders the ranks: the start or, on one clock, the common end less the duration"""
    duration: I64
    present: Mask
    step: I64
    """the step's index on each rank (-1: outside)"""
    kind: NDArray[np.str_]
    bytes: I64
    """-1: unknown"""
    offset: F64
    """ns to add to a rank's own times"""
    ahead: F64
    """how far a rank's clock is ahead of the first one's, ns; nan: it meets no other"""
    error: F64
    """how far a rank's clock may be from the others' median, ns; nan: unknown"""
    notes: tuple[str, ...]
    clock: str = "ends of collectives"
    """what determined the clocks"""

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def leave_together(self) -> Mask:
        """Meetings whose ranks leave together."""
        return np.isin(self.kind, JOINT)

    @cached_property
    def transfer_ns(self) -> I64:
        """Time of each once all ranks were there: the shortest over ranks, ns."""
        huge = np.iinfo(np.int64).max
        shortest = np.where(self.present, self.duration, huge).min(axis=1, initial=huge)
        return np.where(shortest == huge, 0, shortest).astype(np.int64)

    @cached_property
    def held_up(self) -> float:
        """Share of all transfer time beyond ``USUAL``; 0 where steps are few or not alike."""
        step = self.step.max(axis=1, initial=-1)
        _, index, counts = np.unique(step, return_inverse=True, return_counts=True)
        if len(counts) < LEAST_STEPS or np.ptp(counts) or not self.transfer_ns.sum():
            return 0.0
        order = np.lexsort((self.arrival.min(axis=1, initial=np.inf), index.ravel()))
        times = self.transfer_ns[order].reshape(len(counts), -1)
        for column in (self.kind[order], self.bytes[order]):
            if (column.reshape(times.shape) != column[: counts[0]]).any():
                return 0.0
        return float(np.maximum(times - USUAL * np.median(times, axis=0), 0.0).sum() / times.sum())

    @cached_property
    def waiting_ns(self) -> I64:
        """How long each rank waited in each for the others, ns; 0 within the clock error."""
        beyond = self.duration - self.transfer_ns[:, None]
        error = np.nan_to_num(self.error)
        valid = self.present & self.is_decided[:, None] & ~self.late_ranks
        valid &= beyond > error + error.max(initial=0.0)
        return np.where(valid, beyond, 0).astype(np.int64)

    @cached_property
    def late_ranks(self) -> Mask:
        """Which ranks arrive last in each within the clock error; none if all might."""
        known = self.present & np.isfinite(self.error)
        arrival = np.where(known, self.arrival, -np.inf)
        last = arrival.argmax(axis=1) if len(self) else np.empty(0, np.int64)
        rows = np.arange(len(self))
        error = self.error[last, None] + self.error[None, :]
        late = known & (arrival >= arrival[rows, last][:, None] - error)
        decided = known.any(axis=1) & (late.sum(axis=1) < self.present.sum(axis=1))
        decided &= self.leave_together & (known == self.present).all(axis=1)
        return late & decided[:, None]

    @property
    def is_decided(self) -> Mask:
        """Meetings with a known last rank."""
        return self.late_ranks.sum(axis=1) > 0

    @property
    def clock_error_s(self) -> float | None:
        """How far the clocks of two ranks may still differ, s; None where unknown."""
        known = self.error[np.isfinite(self.error)]
        return float(np.sort(known)[-2:].sum()) / 1e9 if len(known) > 1 else None


def find_meetings(ranks: Sequence[Facts]) -> Meetings:
    """Match the collectives of all ranks, and align the clocks by their ends."""
    matched = match_collectives(
        [facts.collectives for facts in ranks],
        [facts.steps.labels for facts in ranks],
        np.array([facts.timeline.base_ns - ranks[0].timeline.base_ns for facts in ranks]),
    )
    ends = np.where(matched.present, matched.start + matched.duration, np.nan)
    ends[~np.isin(matched.kind, JOINT)] = np.nan
    offset, error = _align_clocks(ends)
    start = matched.start + np.nan_to_num(offset)[None, :]
    arrival, same_clock = start, _one_clock(ranks, offset)
    if same_clock:
        offset, error = np.zeros(len(ranks)), np.full(len(ranks), RESOLUTION_NS)
        start = matched.start.astype(np.float64)
        earliest = np.where(np.isnan(ends), np.inf, ends).min(axis=1, keepdims=True)
        arrival = np.where(np.isinf(earliest), start, earliest - matched.duration)
    return Meetings(
        start=start,
        arrival=arrival,
        duration=matched.duration,
        present=matched.present,
        step=matched.step,
        kind=matched.kind,
        bytes=matched.bytes,
        offset=offset + matched.base,
        ahead=-offset,
        error=np.maximum(error, matched.blur_ns),
        notes=matched.notes,
        clock="one machine's clock" if same_clock else "ends of collectives",
    )


def _one_clock(ranks: Sequence[Facts], offset: F64) -> bool:
    """Whether all times are of one clock: one hostname, and common ends of collectives."""
    hosts = {facts.timeline.hostname for facts in ranks}
    watched = all(facts.timeline.source.format == "probe" for facts in ranks)
    near = bool((np.abs(offset) < NEAR_NS).all())
    return near and watched and len(hosts) == 1 and None not in hosts


def _align_clocks(ends: F64) -> tuple[F64, F64]:
    """Offsets to add to each rank's times and their errors, ns, also through other ranks; nan for a
    rank that meets no other."""
    count = ends.shape[1]
    offset, error = np.full(count, np.nan), np.full(count, np.nan)
    for first in range(count):
        if np.isnan(offset[first]) and np.isfinite(ends[:, first]).any():
            offset[first] = 0.0
            while _join_others(ends, offset):
                pass
    aligned = ends + offset[None, :]
    aligned = aligned[np.isfinite(aligned).sum(axis=1) > 1]
    for rank in range(count):
        common = aligned[np.isfinite(aligned[:, rank])]
        if len(common) >= LEAST_ENDS:
            deviation = np.abs(common[:, rank] - _row_medians(common))
            error[rank] = max(float(np.quantile(deviation, TRUST, method="higher")), RESOLUTION_NS)
    return offset, error


def _join_others(ends: F64, offset: F64) -> bool:
    """Give an offset to ranks that meet one with an offset; return whether any was given."""
    joined = False
    for rank in np.flatnonzero(np.isnan(offset)).tolist():
        known = np.isfinite(offset)
        both = np.isfinite(ends[:, rank]) & np.isfinite(ends[:, known]).any(axis=1)
        if both.any():
            theirs = _row_medians(ends[both][:, known] + offset[known])
            offset[rank] = np.median(theirs - ends[both, rank])
            joined = True
    return joined


def _row_medians(values: F64) -> F64:
    middle: F64 = np.nanmedian(values, axis=1)
    return middle
