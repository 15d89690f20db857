"""Several ranks seen together: one clock for all, who arrives last, who waits for whom.

Every rank has a clock of its own. All ranks leave an all-reduce (or any collective in which each
needs something of each) within microseconds of each other, so the differences between the ends of
one collective on two ranks are the offset of their clocks, and the spread of these differences
tells how far it can be trusted. A systematic difference of a few microseconds in leaving cannot be
told from an offset. Processes of one machine that our own probe watched read one clock: there the
ends are not needed, and would mislead, as a thread that must wait for a core leaves late. Who came
last is told by how long each was in the collective, which all of them leave together.

A rank that comes late to a collective spends little time in its kernel, the others wait in theirs.
So the shortest kernel of one collective is the transfer, what the others have beyond it is waiting,
and the rank with the *least* collective time is the late one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.collective_matching import match_collectives
from whyidle.analysis.collectives import JOINT
from whyidle.analysis.facts import Facts

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

RESOLUTION_NS = 1_000.0
"""profilers before 2024 wrote whole microseconds"""
USUAL = 1.5
"""a collective that took longer than this many times what it takes in other steps was held up"""
LEAST_STEPS = 8
"""with fewer steps nothing is usual"""
LEAST_ENDS = 3
"""with fewer common ends a clock's error cannot be judged"""
NEAR_NS = 100_000_000
"""clocks that count from the start of their machines are never so close on two of one name"""
TRUST = 0.95
"""the error of a clock is this quantile of how far ranks seem to leave apart (of few, the most)"""


@dataclass(frozen=True, eq=False)
class Meetings:
    """Collectives matched across ranks, in arrays of shape (meetings, ranks).

    ``start`` is in the clock of the first rank (ns after its base) and ``duration`` in ns, both
    valid where ``present``; so is ``arrival``, by which ranks are ordered: the start, or on one
    clock the end of all less the duration. ``step`` is the step's index on each rank (-1:
    outside). ``kind`` and ``bytes`` (-1: unknown) are of shape (meetings,), ``offset`` (ns to add
    to a rank's own times), ``ahead`` (how far its clock is ahead of the first one's, ns; nan: it
    meets nobody) and ``error`` (how far a rank's clock may be from the others' middle, ns; nan:
    cannot be judged) of shape (ranks,). ``clock`` says what told that.
    """

    start: F64
    arrival: F64
    duration: I64
    present: Mask
    step: I64
    kind: NDArray[np.str_]
    bytes: I64
    offset: F64
    ahead: F64
    error: F64
    notes: tuple[str, ...]
    clock: str = "ends of collectives"

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def leave_together(self) -> Mask:
        """Meetings whose ranks leave together."""
        return np.isin(self.kind, JOINT)

    @cached_property
    def transfer_ns(self) -> I64:
        """What each took once everyone was there: the shortest over ranks, ns."""
        huge = np.iinfo(np.int64).max
        shortest = np.where(self.present, self.duration, huge).min(axis=1, initial=huge)
        return np.where(shortest == huge, 0, shortest).astype(np.int64)

    @cached_property
    def held_up(self) -> float:
        """Share of all ``transfer`` beyond what the same collective usually takes: its data would
        not have taken so long, something else came between. 0 where steps are few or not alike."""
        step = self.step.max(axis=1, initial=-1)
        _, index, counts = np.unique(step, return_inverse=True, return_counts=True)
        if len(counts) < LEAST_STEPS or np.ptp(counts) or not self.transfer_ns.sum():
            return 0.0
        order = np.lexsort((self.arrival.min(axis=1, initial=np.inf), index.ravel()))
        took = self.transfer_ns[order].reshape(len(counts), -1)
        unlike = [(column[order].reshape(took.shape) != column[order][: counts[0]]).any()
                  for column in (self.kind, self.bytes)]  # fmt: skip
        if any(unlike):
            return 0.0
        return float(np.maximum(took - USUAL * np.median(took, axis=0), 0.0).sum() / took.sum())

    @cached_property
    def waiting_ns(self) -> I64:
        """What each rank waited in each for the others, ns. Less than the clocks can tell counts
        as nothing, and so do meetings of which nobody can tell who came last."""
        beyond = self.duration - self.transfer_ns[:, None]
        blur = np.nan_to_num(self.error)
        valid = self.present & self.is_decided[:, None] & ~self.late_ranks
        valid &= beyond > blur + blur.max(initial=0.0)
        return np.where(valid, beyond, 0).astype(np.int64)

    @cached_property
    def late_ranks(self) -> Mask:
        """Which ranks arrive last in each, as far as the clocks can tell: none where every rank
        might be the last, several where some cannot be told apart."""
        known = self.present & np.isfinite(self.error)
        arrival = np.where(known, self.arrival, -np.inf)
        last = arrival.argmax(axis=1) if len(self) else np.empty(0, np.int64)
        rows = np.arange(len(self))
        blur = self.error[last, None] + self.error[None, :]
        late = known & (arrival >= arrival[rows, last][:, None] - blur)
        told = (
            known.any(axis=1) & (late.sum(axis=1) < self.present.sum(axis=1)) & self.leave_together
        )
        told &= (known == self.present).all(axis=1)
        return late & told[:, None]

    @property
    def is_decided(self) -> Mask:
        """Meetings of which it can be told who came last."""
        return self.late_ranks.sum(axis=1) > 0

    @property
    def clock_error_s(self) -> float | None:
        """How far the clocks of two ranks may still be apart, s; None where it cannot be told."""
        known = self.error[np.isfinite(self.error)]
        return float(np.sort(known)[-2:].sum()) / 1e9 if len(known) > 1 else None


def find_meetings(ranks: Sequence[Facts]) -> Meetings:
    """Match the collectives of all ranks by process group, step, order and size, and align the
    clocks by their ends."""
    found = match_collectives(
        [facts.collectives for facts in ranks],
        [facts.steps.labels for facts in ranks],
        np.array([facts.timeline.base_ns - ranks[0].timeline.base_ns for facts in ranks]),
    )
    ends = np.where(found.present, found.start + found.duration, np.nan)
    ends[~np.isin(found.kind, JOINT)] = np.nan
    offset, error = _align_clocks(ends)
    start = found.start + np.nan_to_num(offset)[None, :]
    arrival, one = start, _one_clock(ranks, offset)
    if one:
        offset, error = np.zeros(len(ranks)), np.full(len(ranks), RESOLUTION_NS)
        start = found.start.astype(np.float64)
        left = np.where(np.isnan(ends), np.inf, ends).min(axis=1, keepdims=True)
        arrival = np.where(np.isinf(left), start, left - found.duration)
    return Meetings(
        start=start,
        arrival=arrival,
        duration=found.duration,
        present=found.present,
        step=found.step,
        kind=found.kind,
        bytes=found.bytes,
        offset=offset + found.base,
        ahead=-offset,
        error=np.maximum(error, found.blur_ns),
        notes=found.notes,
        clock="one machine's clock" if one else "ends of collectives",
    )


def _one_clock(ranks: Sequence[Facts], offset: F64) -> bool:
    """Whether all times are readings of one machine's clock: it is said to be one machine, and all
    leave collectives at about the same time of that clock."""
    hosts = {facts.timeline.hostname for facts in ranks}
    watched = all(facts.timeline.source.format == "probe" for facts in ranks)
    near = bool((np.abs(offset) < NEAR_NS).all())
    return near and watched and len(hosts) == 1 and None not in hosts


# -- clocks -------------------------------------------------------------------------------------


def _align_clocks(ends: F64) -> tuple[F64, F64]:
    """Offsets to add to each rank's times, and their errors, ns. Ranks that never meet the first
    one directly are aligned through others; of ranks that never meet it at all, each separate group
    has its own first. Those that meet nobody have neither."""
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
        apart = aligned[np.isfinite(aligned[:, rank])]
        if len(apart) >= LEAST_ENDS:
            away = np.abs(apart[:, rank] - _row_medians(apart))
            error[rank] = max(float(np.quantile(away, TRUST, method="higher")), RESOLUTION_NS)
    return offset, error


def _join_others(ends: F64, offset: F64) -> bool:
    """Give an offset to every rank that meets one which has it; whether there was any."""
    found = False
    for rank in np.flatnonzero(np.isnan(offset)).tolist():
        known = np.isfinite(offset)
        both = np.isfinite(ends[:, rank]) & np.isfinite(ends[:, known]).any(axis=1)
        if both.any():
            theirs = _row_medians(ends[both][:, known] + offset[known])
            offset[rank] = np.median(theirs - ends[both, rank])
            found = True
    return found


def _row_medians(values: F64) -> F64:
    """Median of each row, of what is there; every row holds something."""
    middle: F64 = np.nanmedian(values, axis=1)
    return middle
