"""What ranks cost each other: waiting that holds up their work, who causes it, and why.

Only waiting counts behind which the next work was queued already: while the host is still busy
launching, nothing is lost by a collective that takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.backward_time import excess_outside_backward
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.process_stops import StoppedRank, find_stopped_rank
from whyidle.analysis.rank_meetings import Meetings
from whyidle.analysis.rank_pace import RankPaces, find_paces

F64 = NDArray[np.float64]

CONSTANT = 0.8
"""a rank that is the late one in this share of the steps is always the late one (TraceML asks for
80 % coverage before it names a straggler)"""
SAME_WORK = 0.9
"""so much of the kernel time must be in launches of equal name, number and grid to compare"""
SLOWER = 1.05
"""the same kernels taking this much longer on one device is more than the scatter of good ones:
fail-slow studies call 10 % a straggler, half of it is our margin"""
MOSTLY = 0.5
"""share of the waiting for a rank that must be explained to lay it to one reason"""


@dataclass(frozen=True, slots=True)
class LateRank:
    """The rank that the others wait for most.

    ``lateness_s`` is how long they wait for it per step, ``steps_ratio`` the share of steps in
    which it is the one, ``last_ratio`` the share of collectives to which it comes last,
    ``excess_s`` what it spends per step in every bucket beyond the mean of the others,
    ``kernel_slowdown`` how much longer its kernels take where the work is the same (None: not
    comparable), ``contended`` the share of the others' waiting in which it waits for a CPU core
    itself, ``worked`` the share in which it runs longer than they do (1: not told).
    """

    index: int
    rank: int | None
    lateness_s: float
    steps_ratio: float
    last_ratio: float
    excess_s: dict[str, float]
    slower: float | None
    contended: float = 0.0
    worked: float = 1.0

    @property
    def is_constant(self) -> bool:
        """Whether it is always the same rank."""
        return self.steps_ratio >= CONSTANT

    @property
    def slow_device(self) -> bool:
        """Whether it is always late at provably the same work: the same kernels, or the same CPU
        time but less of a core."""
        slower = self.reason == "compute" and (self.slower or 0.0) >= SLOWER
        return self.is_constant and (slower or self.short_of_cpu)

    @property
    def short_of_cpu(self) -> bool:
        """Whether most of its lateness is waiting for a CPU core."""
        return self.contended >= MOSTLY

    @property
    def reason(self) -> str:
        """The bucket in which it spends most beyond the others."""
        return max(self.excess_s, key=lambda bucket: self.excess_s[bucket])


class RankImbalance:
    """Who waits for whom, over the steps in scope. Arrays are of shape (ranks,)."""

    def __init__(self, ranks: Sequence[Facts], meetings: Meetings) -> None:
        self.ranks = ranks
        self.meetings = meetings

    @cached_property
    def _exposed_waiting(self) -> F64:
        """Exposed waiting of each rank at each meeting, s; (meetings, ranks)."""
        met = self.meetings
        exposed = np.zeros(met.present.shape)
        for index, facts in enumerate(self.ranks):
            mine = np.flatnonzero(met.waiting_ns[:, index] > 0)
            if not len(mine) or not np.isfinite(met.offset[index]):
                continue
            start = np.rint(met.start[mine, index] - met.offset[index]).astype(np.int64)
            stop = start + met.waiting_ns[mine, index]
            exposed[mine, index] = facts.held_up.length_inside(start, stop) / 1e9
        return exposed

    @cached_property
    def waiting(self) -> F64:
        """Share of the step that each rank is held up by waiting for others."""
        shares = np.zeros(len(self.ranks))
        for index, facts in enumerate(self.ranks):
            met = self.meetings
            mine = met.waiting_ns[:, index] > 0
            start = np.rint(met.start[mine, index] - met.offset[index]).astype(np.int64)
            spans = union_of(start, start + met.waiting_ns[mine, index])
            shares[index] = facts.share_of(facts.held_up & spans)
        return shares

    @property
    def transfer(self) -> F64:
        """Share of the step that each rank spends in exposed communication without waiting."""
        return np.array([f.bucket_share("communication") for f in self.ranks]) - self.waiting

    @cached_property
    def _blame(self) -> F64:
        """How long the others wait for each rank at each meeting, mean over them, s."""
        late = self.meetings.late_ranks
        others = np.maximum(self.meetings.present.sum(axis=1) - late.sum(axis=1), 1)
        waited = (self._exposed_waiting * ~late).sum(axis=1) / others
        return late * (waited / np.maximum(late.sum(axis=1), 1))[:, None]

    @cached_property
    def lateness_s(self) -> F64 | None:
        """How long the others wait, exposed, for each rank per step; None where the clocks do not
        tell who is late."""
        if not self.meetings.is_decided.any():
            return None
        steps = np.mean([facts.step_count for facts in self.ranks])
        return self._blame.sum(axis=0) / max(float(steps), 1.0)

    @property
    def last_ratio(self) -> F64:
        """Share of the meetings with a known order to which each rank comes last."""
        return self.meetings.late_ranks.sum(axis=0) / max(int(self.meetings.is_decided.sum()), 1)

    @cached_property
    def loss_interval(self) -> tuple[float, float]:
        """P8: share of the step that is won when every rank does the mean of the work. (The part
        that is the same in every step, all of it.)"""
        own, others = self.own_work, (len(self.ranks) - 1) / len(self.ranks)
        whole = max(float(self.waiting.mean()), self.delayed * others)
        return max(0.0, min(float(own.max() - own.mean()), whole)), whole

    @cached_property
    def delayed(self) -> float:
        """Share of the step by which one rank that is always late comes behind all others to the
        first meeting of each step; 0 where there is no such rank. That time is lost even where the
        others' hosts were still busy launching in it: their work would have run earlier. On a CPU
        it is recorded how long each rank ran instead."""
        late, met = self.late_rank, self.meetings
        if late is None or not late.is_constant or self.paces is not None or self.ranks[0].on_cpu:
            return 0.0
        rows = np.flatnonzero(met.is_decided & met.present.all(axis=1))
        rows = rows[np.argsort(met.arrival[rows].max(axis=1), kind="stable")]
        rows = rows[np.unique(met.step[rows].max(axis=1), return_index=True)[1]]
        arrival = met.arrival[rows]
        behind = arrival[:, late.index] - np.delete(arrival, late.index, axis=1).max(axis=1)
        steps = max(float(np.mean([facts.step_count for facts in self.ranks])), 1.0)
        length = float(np.mean([facts.step_s for facts in self.ranks]))
        return min(float(np.maximum(behind, 0.0).sum()) / 1e9 / steps / max(length, 1e-12), 1.0)

    @property
    def own_work(self) -> F64:
        """What each rank does besides waiting, as share of the mean step."""
        length = np.array([facts.step_s for facts in self.ranks])
        return length * (1.0 - self.waiting) / max(float(length.mean()), 1e-12)

    def gain_if_as_fast(self, index: int) -> tuple[float, float]:
        """Share of the step that is won when one rank is as fast as the slowest of the others: with
        transfers as exposed as now, and with them hidden by the work beside which they then run."""
        own = self.own_work
        shares = np.array([facts.bucket_share("communication") for facts in self.ranks])
        alone = self.own_work / np.maximum(1.0 - self.waiting, 1e-9) * (1.0 - shares)
        won = [each[index] - np.delete(each, index).max(initial=0.0) for each in (own, alone)]
        low, high = sorted(max(0.0, float(share)) for share in won)
        return low, high

    def gain_if_earlier(self, index: int) -> tuple[float, float]:
        """Share of the step that is won when one rank comes earlier to every meeting by what it is
        behind the mean of the others on average, as far as it runs longer where that is recorded:
        by the meetings as they were, in which another rank may be the last then, and where none is.
        """
        met = self.meetings
        own, whole = met.present[:, index], met.present.all(axis=1) & met.is_decided
        arrival = met.arrival[whole & own]
        if not len(arrival):
            return 0.0, 0.0
        others = np.delete(arrival, index, axis=1)
        behind = float((arrival[:, index] - others.mean(axis=1)).mean())
        steps = max(float(np.mean([facts.step_count for facts in self.ranks])), 1.0)
        if self.paces is not None:
            behind = min(behind, self.paces.excess_of(index)[0] * 1e9 * steps / len(arrival))
        earlier = np.maximum(arrival[:, index] - max(behind, 0.0), others.max(axis=1))
        won = (arrival.max(axis=1) - earlier).sum() / steps
        step_ns = float(np.mean([facts.step_s for facts in self.ranks])) * 1e9
        return float(won / step_ns), max(behind, 0.0) * len(arrival) / steps / step_ns

    @cached_property
    def late_rank(self) -> LateRank | None:
        """The rank that the others wait for most; None where nobody waits or nobody can tell."""
        lateness = self.lateness_s
        if lateness is None or lateness.max() <= 0.0:
            return None
        index = int(lateness.argmax())
        turns = self._steps_ratio(index)
        return LateRank(
            index=index,
            rank=self.ranks[index].rank,
            lateness_s=float(lateness[index]),
            steps_ratio=turns,
            contended=self._explained_share(index if turns >= CONSTANT else None, lateness, 1, 0.0),
            worked=self._explained_share(index if turns >= CONSTANT else None, lateness, 0, 1.0),
            last_ratio=float(self.last_ratio[index]),
            excess_s=self._excess_by_bucket(index),
            slower=kernel_slowdown(
                [facts for i, facts in enumerate(self.ranks) if i != index], self.ranks[index]
            ),
        )

    @cached_property
    def paces(self) -> RankPaces | None:
        """Running and waiting for a core between exchanges; None: not recorded."""
        return find_paces(self.ranks)

    @cached_property
    def stopped_rank(self) -> StoppedRank | None:
        """The rank that somebody stops again and again, if any. On a CPU its own stops look like
        waiting in its exchanges: all its threads stand still."""
        return find_stopped_rank(self.ranks)

    @cached_property
    def stopped_share(self) -> F64:
        """Share of the step that each rank spends in exposed communication because one is stopped
        longer than the others: that one stands still in it, and the others wait. As much as that
        may explain at most is laid to nothing else."""
        most = (
            0.0
            if self.stopped_rank is None or not self.ranks[0].on_cpu
            else self.stopped_rank.longest_stop
        )
        return np.minimum([facts.bucket_share("communication") for facts in self.ranks], most)

    def _explained_share(
        self, index: int | None, lateness: F64, what: int, unknown: float
    ) -> float:
        """The part of the waiting for one rank (``None``: for whoever is late) that is explained by
        that rank's running longer (0) or waiting for a core longer (1) than the others."""
        waited = float(lateness.sum() if index is None else lateness[index])
        if self.paces is None or waited <= 0.0:
            return unknown
        return min(max(self.paces.excess_of(index)[what] / waited, 0.0), 1.0)

    def _steps_ratio(self, index: int) -> float:
        step = self.meetings.step.max(axis=1)
        numbers, inverse = np.unique(step, return_inverse=True)
        blame = np.zeros((len(numbers), len(self.ranks)))
        np.add.at(blame, inverse.ravel(), self._blame)
        blame = blame[blame.sum(axis=1) > 0]
        return float((blame.argmax(axis=1) == index).mean()) if len(blame) else 0.0

    def _excess_by_bucket(self, index: int) -> dict[str, float]:
        spent = [
            {b: s * facts.step_s for b, s in facts.attribution.items() if b != "communication"}
            for facts in self.ranks
        ]
        others = [each for i, each in enumerate(spent) if i != index]
        excess = {
            bucket: own - float(np.mean([each[bucket] for each in others]))
            for bucket, own in spent[index].items()
        }
        most = max(0.0, min(excess["compute"], excess["host"]))  # no more than was found is added
        apart = min(excess_outside_backward(self.ranks, index), most)
        return {**excess, "compute": excess["compute"] - apart, "host": excess["host"] + apart}


def kernel_slowdown(others: Sequence[Facts], mine: Facts) -> float | None:
    """How many times longer the same kernels take on one rank than on the middle of the others;
    None unless nearly all its kernel time is in kernels that all ranks launch alike: as often per
    step, and with grids of the same size (so with tensors of the same size)."""
    own, theirs = _kernel_times(mine), [_kernel_times(facts) for facts in others]
    total = sum(time for time, _, _ in own.values())
    if not own or not total:
        return None
    same = {
        name: float(np.median([each[name][0] for each in theirs]))
        for name, (_, count, blocks) in own.items()
        if all(name in each and _are_alike((count, blocks), each[name][1:]) for each in theirs)
    }
    matched = sum(own[name][0] for name in same)
    if matched < SAME_WORK * total or not sum(same.values()):
        return None
    return matched / sum(same.values())


def _are_alike(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return bool(np.allclose(one, other, rtol=0.01))


def _kernel_times(facts: Facts) -> dict[str, tuple[float, float, float]]:
    """By kernel name, without collectives: (seconds, launches, summed grid) per step. Kernels whose
    grid is not recorded are left out."""
    rows = facts.kernels
    grid = facts.device.blocks_per_sm[rows].astype(np.float64)
    rows, grid = (
        part[(facts.group[rows] != "communication") & (grid > 0)] for part in (rows, grid)
    )
    names, index, counts = np.unique(
        facts.device.name[rows], return_inverse=True, return_counts=True
    )
    seconds = np.bincount(index, weights=facts.durations_s(rows), minlength=len(names))
    blocks = np.bincount(index, weights=grid, minlength=len(names))
    steps = max(facts.step_count, 1)
    return {
        facts.timeline.names[name]: (float(s) / steps, float(n) / steps, float(b) / steps)
        for name, s, n, b in zip(names, seconds, counts, blocks, strict=True)
    }
