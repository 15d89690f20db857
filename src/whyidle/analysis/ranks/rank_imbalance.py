"""What ranks cost each other: waiting that holds up their work, by whom and why. Waiting counts
only where the next work was already queued; while the host still launches, a longer collective
costs nothing.

Whether a late rank on a CPU had more work, or less of a core. A thread runs, waits for a core,
or sleeps. Between two gradient exchanges a rank with more work runs longer; a rank that shares its
core runs as long as the others and waits for the core. A core that is slower by itself (clock,
caches) cannot be separated from more work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view

from whyidle.analysis.arrays import F64
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import SHARED
from whyidle.analysis.intervals import union_of
from whyidle.analysis.ranks.collective_arrivals import Meetings
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import MOSTLY
from whyidle.model.roles import Role

LEAST = 4
"""least common rounds"""
MIDDLE = (0.1, 0.9)
"""quantiles between which steps are compared; beyond are log lines, collections, other programs"""
ALONG = 10
"""even number of steps whose median is the machine's own pace; work varies from step to step"""


class RankPaces(Struct, frozen=True, eq=False):
    """Rounds between two exchanges, s, of shape (ranks, rounds); ``per_step`` rounds."""

    ran: F64
    queued: F64
    per_step: float

    def excess_of(self, index: int | None) -> tuple[float, float]:
        """Return how much longer the late rank (None: of each round) runs, and waits for a core,
        than the mean of the others, s per step. The others' waiting per run time counts as
        running."""
        count, rounds = self.ran.shape
        own = self.ran + self.queued
        late = own.argmax(axis=0) if index is None else np.full(rounds, index)
        excess, usual = [], []
        for spent in (self.ran, self.queued):
            late_time = spent[late, np.arange(rounds)]
            others = (spent.sum(axis=0) - late_time) / max(count - 1, 1)
            excess.append(float((late_time - others).mean()) * self.per_step)
            usual.append(float(others.mean()))
        ran, queued = excess
        along = max(0.0, min(queued, ran * usual[1] / max(usual[0], 1e-12)))
        return ran + along, queued - along

    @property
    def has_varying_work(self) -> bool:
        """Whether some rank's work varies from step to step by more than a shared core explains
        (``SHARED``), without the common drift of all ranks."""
        rounds = max(round(self.per_step), 1)
        steps = self.ran.shape[1] // rounds
        if steps < LEAST:
            return False
        times = self.ran[:, : steps * rounds].reshape(len(self.ran), steps, rounds).sum(axis=2)
        around = np.pad(times.mean(axis=0), (ALONG // 2, ALONG // 2 - 1), mode="edge")
        drift = np.median(sliding_window_view(around, ALONG), axis=1)
        short, long = np.quantile(times / np.maximum(drift, 1e-12), MIDDLE, axis=1)
        return bool((long * SHARED > short).any())

    def pace_of(self, index: int) -> tuple[float, float]:
        """Return how long one rank runs, and waits for a core, s per step."""
        ran, queued = self.ran[index].mean(), self.queued[index].mean()
        return float(ran) * self.per_step, float(queued) * self.per_step


def find_paces(ranks: Sequence[Facts]) -> RankPaces | None:
    """Return the rounds in scope; None unless every rank recorded enough of them."""
    paces = [facts.timeline.pace for facts in ranks if facts.timeline.pace is not None]
    if len(paces) < max(len(ranks), 2):
        return None
    rounds = min(len(pace.time) for pace in paces)
    if rounds <= LEAST:
        return None
    inside = np.ones(rounds - 1, dtype=bool)
    for facts, pace in zip(ranks, paces, strict=True):
        known = facts.scope.contains_times(pace.time[:rounds])
        inside &= known[:-1] & known[1:]
    if inside.sum() < LEAST:
        return None
    ran, queued = (
        np.stack([np.diff(column[:rounds])[inside] / 1e9 for column in columns])
        for columns in ([pace.ran for pace in paces], [pace.queued for pace in paces])
    )
    length = float(np.diff(paces[0].time[:rounds])[inside].mean()) / 1e9
    return RankPaces(ran, queued, per_step=ranks[0].step_s / max(length, 1e-9))


CONSTANT = 0.8
"""a rank late in this share of the steps is always late, as for TraceML's stragglers"""
SAME_WORK = 0.9
"""least share of the kernel time in launches of equal name, number and grid to compare ranks"""
SLOWER = 1.05
"""half of the 10 % from which fail-slow studies call a device a straggler"""


class LateRank(Struct, frozen=True):
    """The rank that the others wait for most."""

    index: int
    rank: int | None
    lateness_s: float
    """how long the others wait for it per step"""
    steps_ratio: float
    """share of steps in which it is the late one"""
    last_ratio: float
    """share of collectives to which it comes last"""
    excess_s: dict[str, float]
    """its time per step in every bucket beyond the mean of the others"""
    slower: float | None
    """how many times longer its kernels take at the same work; None: not comparable"""
    contended: float = 0.0
    """share of the others' waiting in which it waits for a CPU core"""
    worked: float = 1.0
    """share of the others' waiting in which it runs longer than they do (1: unknown)"""

    @property
    def is_constant(self) -> bool:
        """Whether it is always the same rank, or in most steps and it spends as much more than the
        others as they wait for it: where chance decides, ranks take turns and none spends more. Of
        what runs on a core, run times tell (``RankPaces``)."""
        more = self.excess_s[self.reason] >= CONSTANT * self.lateness_s
        more &= self.reason not in ("compute", "host")
        return self.steps_ratio >= CONSTANT or (self.steps_ratio > MOSTLY and more)

    @property
    def slow_device(self) -> bool:
        """Whether it is always late at provably the same kernels, or with less of a core."""
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
    """Which rank waits for which over the steps in scope. Arrays are of shape (ranks,)."""

    def __init__(self, ranks: Sequence[Facts], meetings: Meetings) -> None:
        self.ranks = ranks
        self.meetings = meetings

    @cached_property
    def _exposed_waiting(self) -> F64:
        meetings = self.meetings
        exposed = np.zeros(meetings.present.shape)
        for index, facts in enumerate(self.ranks):
            waited = np.flatnonzero(meetings.waiting_ns[:, index] > 0)
            if not len(waited) or not np.isfinite(meetings.offset[index]):
                continue
            start = np.rint(meetings.start[waited, index] - meetings.offset[index]).astype(np.int64)
            stop = start + meetings.waiting_ns[waited, index]
            exposed[waited, index] = facts.held_up.length_inside(start, stop) / 1e9
        return exposed

    @cached_property
    def waiting_s(self) -> F64:
        """Share of the step in which each rank is held up by waiting for others."""
        shares = np.zeros(len(self.ranks))
        for index, facts in enumerate(self.ranks):
            meetings = self.meetings
            waited = meetings.waiting_ns[:, index] > 0
            start = np.rint(meetings.start[waited, index] - meetings.offset[index]).astype(np.int64)
            spans = union_of(start, start + meetings.waiting_ns[waited, index])
            shares[index] = facts.share_of(facts.held_up & spans)
        return shares

    @property
    def transfer(self) -> F64:
        """Share of the step that each rank spends in exposed communication without waiting."""
        return np.array([f.bucket_share("communication") for f in self.ranks]) - self.waiting_s

    @cached_property
    def _blame(self) -> F64:
        late = self.meetings.late_ranks
        others = np.maximum(self.meetings.present.sum(axis=1) - late.sum(axis=1), 1)
        waited = (self._exposed_waiting * ~late).sum(axis=1) / others
        return late * (waited / np.maximum(late.sum(axis=1), 1))[:, None]

    @cached_property
    def lateness_s(self) -> F64 | None:
        """Exposed waiting of the others for each rank per step, if the order is known."""
        if not self.meetings.is_decided.any():
            return None
        steps = np.mean([facts.step_count for facts in self.ranks])
        return self._blame.sum(axis=0) / max(float(steps), 1.0)

    @property
    def last_ratio(self) -> F64:
        """Share of the meetings with a known order to which each rank comes last."""
        return self.meetings.late_ranks.sum(axis=0) / max(int(self.meetings.is_decided.sum()), 1)

    @property
    def path_ratio(self) -> F64:
        """Share of the critical path over the ranks that runs through each: the path to a meeting
        leads through the rank that comes last, from the meeting before."""
        meetings = self.meetings
        rows = np.flatnonzero(meetings.leave_together & meetings.present.any(axis=1))
        last = np.where(meetings.present[rows], meetings.arrival[rows], -np.inf).max(axis=1)
        rows, last = rows[np.argsort(last)], np.sort(last)
        left = np.maximum.accumulate(last + meetings.transfer_ns[rows])
        length = np.maximum(last[1:] - left[:-1], 0.0)
        late = meetings.late_ranks[rows[1:]]
        share = late / np.maximum(late.sum(axis=1), 1)[:, None] * length[:, None]
        ratio: F64 = share.sum(axis=0) / max(float(length.sum()), 1e-12)
        return ratio

    @cached_property
    def loss_interval(self) -> tuple[float, float]:
        """P8: share of the step won if every rank does the mean work of every step, and at most."""
        own, others = self.own_work, (len(self.ranks) - 1) / len(self.ranks)
        most = max(float(self.waiting_s.mean()), self.delay_share * others)
        return max(0.0, min(float(own.max() - own.mean()), most)), most

    @cached_property
    def delay_share(self) -> float:
        """Share of the step by which a constantly late rank comes after the others to each step's
        first meeting. It is lost even while the others' hosts launch, as their work would have run
        earlier. On a CPU the run times of ranks replace it."""
        late, meetings = self.late_rank, self.meetings
        if late is None or not late.is_constant or self.paces is not None or self.ranks[0].on_cpu:
            return 0.0
        rows = np.flatnonzero(meetings.is_decided & meetings.present.all(axis=1))
        rows = rows[np.argsort(meetings.arrival[rows].max(axis=1), kind="stable")]
        rows = rows[np.unique(meetings.step[rows].max(axis=1), return_index=True)[1]]
        arrival = meetings.arrival[rows]
        behind = arrival[:, late.index] - np.delete(arrival, late.index, axis=1).max(axis=1)
        steps = max(float(np.mean([facts.step_count for facts in self.ranks])), 1.0)
        length = float(np.mean([facts.step_s for facts in self.ranks]))
        return min(float(np.maximum(behind, 0.0).sum()) / 1e9 / steps / max(length, 1e-12), 1.0)

    @property
    def own_work(self) -> F64:
        """Each rank's work without waiting, as share of the mean step."""
        length = np.array([facts.step_s for facts in self.ranks])
        return length * (1.0 - self.waiting_s) / max(float(length.mean()), 1e-12)

    def gain_if_as_fast(self, index: int) -> tuple[float, float]:
        """Return the share of the step won if a rank is as fast as the slowest other one: with
        transfers as exposed as now, and hidden by work."""
        own = self.own_work
        shares = np.array([facts.bucket_share("communication") for facts in self.ranks])
        without_exchanges = self.own_work / np.maximum(1.0 - self.waiting_s, 1e-9) * (1.0 - shares)
        works = (own, without_exchanges)
        won = [work[index] - np.delete(work, index).max(initial=0.0) for work in works]
        low, high = sorted(max(0.0, float(share)) for share in won)
        return low, high

    @cached_property
    def late_rank(self) -> LateRank | None:
        """The rank that the others wait for most; None if there is none or it is unknown."""
        lateness = self.lateness_s
        if lateness is None or lateness.max() <= 0.0:
            return None
        index = int(lateness.argmax())
        steps_ratio = self._steps_ratio(index)
        constant = index if steps_ratio >= CONSTANT else None
        others = [facts for i, facts in enumerate(self.ranks) if i != index]
        return LateRank(
            index=index,
            rank=self.ranks[index].rank,
            lateness_s=float(lateness[index]),
            steps_ratio=steps_ratio,
            contended=self._explained_share(constant, lateness, 1, 0.0),
            worked=self._explained_share(constant, lateness, 0, 1.0),
            last_ratio=float(self.last_ratio[index]),
            excess_s=self._excess_by_bucket(index),
            slower=kernel_slowdown(others, self.ranks[index]),
        )

    @cached_property
    def paces(self) -> RankPaces | None:
        """Running and waiting for a core between exchanges; None: not recorded."""
        return find_paces(self.ranks)

    def _explained_share(
        self, index: int | None, lateness: F64, column: int, unknown: float
    ) -> float:
        """The part of the waiting explained by the late rank's running (0) or core waits (1)."""
        waited = float(lateness.sum() if index is None else lateness[index])
        if self.paces is None or waited <= 0.0:
            return unknown
        return min(max(self.paces.excess_of(index)[column] / waited, 0.0), 1.0)

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
        others = [buckets for i, buckets in enumerate(spent) if i != index]
        excess = {
            bucket: own - float(np.mean([buckets[bucket] for buckets in others]))
            for bucket, own in spent[index].items()
        }
        most = max(0.0, min(excess["compute"], excess["host"]))  # no more than was found is added
        apart = min(_excess_outside_backward(self.ranks, index), most)
        return {**excess, "compute": excess["compute"] - apart, "host": excess["host"] + apart}


def kernel_slowdown(others: Sequence[Facts], rank: Facts) -> float | None:
    """Return how many times longer the same kernels take on a rank than on the median other; None
    unless nearly all its kernel time is in kernels launched alike by all ranks."""
    own, theirs = _kernel_times(rank), [_kernel_times(facts) for facts in others]
    total = sum(time for time, _, _ in own.values())
    if not own or not total:
        return None
    same = {
        name: float(np.median([times[name][0] for times in theirs]))
        for name, (_, count, blocks) in own.items()
        if all(
            name in times and np.allclose((count, blocks), times[name][1:], rtol=0.01)
            for times in theirs
        )
    }
    matched = sum(own[name][0] for name in same)
    if matched < SAME_WORK * total or not sum(same.values()):
        return None
    return matched / sum(same.values())


def _kernel_times(facts: Facts) -> dict[str, tuple[float, float, float]]:
    """By kernel name without collectives: (seconds, launches, summed grid) per step."""
    rows = facts.kernels
    grid = facts.device.blocks_per_sm[rows].astype(np.float64)
    valid = (facts.group[rows] != "communication") & (grid > 0)
    rows, grid = rows[valid], grid[valid]
    called = facts.device.name[rows]
    names, index, counts = np.unique(called, return_inverse=True, return_counts=True)
    seconds = np.bincount(index, weights=facts.durations_s(rows), minlength=len(names))
    blocks = np.bincount(index, weights=grid, minlength=len(names))
    steps = max(facts.step_count, 1)
    return {
        facts.timeline.names[name]: (float(s) / steps, float(n) / steps, float(b) / steps)
        for name, s, n, b in zip(names, seconds, counts, blocks, strict=True)
    }


def _compute_time(facts: StepScope) -> tuple[float, float] | None:
    """Return a rank's compute inside and outside its backward passes, s per step, if marked."""
    host, rows = facts.timeline.host, facts.timeline.rows_of(Role.BACKWARD)
    if not facts.on_cpu or not len(rows):
        return None
    passes, work = union_of(host.start[rows], host.end[rows]), facts.time_of("compute")
    inside = facts.share_of(work & passes)
    return inside * facts.step_s, (facts.share_of(work) - inside) * facts.step_s


def _excess_outside_backward(ranks: Sequence[StepScope], index: int) -> float:
    """Return a rank's excess compute outside backward passes, s per step; 0 where unknown. More
    data lengthens both passes; excess outside of the backward pass alone is other work,
    which stack samples on a CPU cannot always separate."""
    times = [_compute_time(facts) for facts in ranks]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or len(known) < 2:
        return 0.0
    inside, outside = known.pop(index)
    usual, before = np.mean(known, axis=0)
    more = max(0.0, inside - usual) * before / max(usual, 1e-12)
    return float(max(0.0, outside - before - more))
