"""Exposed communication of a job: its share, its calls, and the gain from hiding it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.blocking_collectives import usual_step_factor
from whyidle.analysis.ranks.collective_arrivals import Meetings
from whyidle.analysis.ranks.collectives import POINT_TO_POINT
from whyidle.analysis.ranks.rank_imbalance import RankImbalance
from whyidle.model.cause import MOSTLY

BACKWARD = 2 / 3
"""share of a step's compute in the backward pass: twice the FLOPs of the forward pass"""
SLOWER_BESIDE = 1.34
"""collectives took this much longer than theory in Daydream's measurements (ATC 2020, NCCL)"""
GRADIENTS = ("all_reduce", "reduce_scatter")
BUCKET_BYTES = 25 << 20
"""``bucket_cap_mb`` of DistributedDataParallel"""


class Exposure(Struct, frozen=True):
    """Communication per step. Shares are of the step, means over ranks."""

    exposed: float
    """all exposed communication"""
    held: float
    """the part that holds up work: the next kernel was queued or about to be launched"""
    waiting: float
    """the part of ``held`` that waits for late ranks, as far as collectives match"""
    stalled: float
    """the part of the rest beyond what the same collective usually takes"""
    stages: float
    """the part of ``held`` in sends and receives between single ranks, as of pipeline stages"""
    unsteady: float
    """the waiting that a single rank shows, as it is not there in every step"""
    is_waiting_known: bool
    """whether matched collectives account for all waiting"""
    in_flight: float
    """all time with a collective in flight"""
    hidden_ratio: float
    """the part of ``in_flight`` that overlaps useful work"""
    compute: float
    calls: float
    """collectives per step"""
    kinds: dict[str, float]
    """seconds per step by kind"""
    mean_bytes: float | None
    median_s: float

    @property
    def transfer(self) -> float:
        """Held-up work in collectives that is not known to be waiting."""
        return max(0.0, self.held - self.waiting - self.stalled - self.stages)

    @property
    def overlappable(self) -> float:
        """Compute that gradients could still overlap."""
        return max(0.0, BACKWARD * self.compute - self.hidden_ratio * self.in_flight)

    @property
    def overlap_gain(self) -> tuple[float, float]:
        """P7, ``T^ = T - X' + max(0, comm - overlappable)``: the share that overlapping wins, from
        half of the certain transfer to all that has room."""
        most = max(0.0, min(self.transfer - self.last_bucket, self.overlappable))
        sure = min(most, self.held - self.unsteady)
        return max(0.0, sure) / (2 * SLOWER_BESIDE), most

    @property
    def last_bucket(self) -> float:
        """The share that no overlap hides: the bucket of the first layers, which is ready last."""
        total = sum(self.kinds.values())
        part = sum(self.kinds.get(kind, 0.0) for kind in GRADIENTS) / total if total else 0.0
        pieces = self.calls * max(1.0, (self.mean_bytes or 0.0) / BUCKET_BYTES)
        return part * self.in_flight / max(pieces, 1.0)

    def compression_gain(self, factor: float) -> float:
        """P7 with ``comm / factor``: return the share won by sending fewer bytes."""
        return self.transfer * (1.0 - 1.0 / factor)


def find_exposure(
    all_ranks: Sequence[Facts], meetings: Meetings, imbalance: RankImbalance
) -> Exposure | None:
    """Return the exposure of all ranks; None where no collective was recorded in scope."""
    ranks = [facts for facts in all_ranks if _in_scope(facts).any()]
    if not ranks:
        return None
    in_flight, alone = 0.0, 0.0
    for facts in ranks:
        flying = facts.share_of(facts.collectives.in_flight) * usual_step_factor(facts)
        in_flight += min(1.0, flying) / len(ranks)
        exposed = facts.bucket_share("collective") + facts.bucket_share("collective_wait")
        alone += exposed / len(ranks)
    hidden = max(0.0, 1.0 - alone / in_flight) if in_flight else 0.0
    if (logged := _hidden_by_log(ranks)) is not None:
        hidden, in_flight = logged, alone / max(1.0 - logged, 0.05)
    held = [held_share(facts) for facts in ranks]
    first = ranks[0].collectives.take_rows(_in_scope(ranks[0]))
    sized = first.bytes[first.bytes >= 0]
    waiting = _mean_value(imbalance.waiting_s)
    is_complete = _is_complete(all_ranks, meetings)
    if is_complete:  # no transfer is longer than the shortest of its matched collectives
        calls = _mean_value([facts.bucket_share("collective_call") for facts in ranks])
        waiting = max(waiting, _mean_value(held) - calls - _transfer_share(ranks, meetings))
    stalled = max(0.0, _mean_value(held) - waiting) * meetings.held_up if is_complete else 0.0
    return Exposure(
        exposed=_mean_value([facts.bucket_share("communication") for facts in ranks]),
        held=_mean_value(held),
        waiting=waiting,
        stalled=stalled,
        stages=_mean_value([stage_share(facts) for facts in ranks]),
        unsteady=_mean_value([h * unsteady_share(f) for h, f in zip(held, ranks, strict=True)]),
        is_waiting_known=is_complete,
        in_flight=in_flight,
        hidden_ratio=hidden,
        compute=_mean_value([facts.bucket_share("compute") for facts in ranks]),
        calls=len(first) / ranks[0].step_count,
        kinds={
            str(kind): float(first.duration[first.kind == kind].sum()) / 1e9 / ranks[0].step_count
            for kind in np.unique(first.kind)
        },
        mean_bytes=float(sized.mean()) if len(sized) > 0.5 * len(first) else None,
        median_s=float(np.median(first.duration)) / 1e9,
    )


def _transfer_share(ranks: Sequence[Facts], meetings: Meetings) -> float:
    """Share of the step in collectives once all ranks were there; unmatched ones count."""
    lengths = [
        facts.collectives.take_rows(_in_scope(facts)).duration.sum() / max(facts.scope.total, 1)
        for facts in ranks
    ]
    present = meetings.present & (meetings.step >= 0)
    beyond = (meetings.duration - meetings.transfer_ns[:, None]) * present
    waited = [
        float(beyond[:, index].sum()) / max(facts.scope.total, 1)
        for index, facts in enumerate(ranks)
    ]
    return _mean_value([max(0.0, length - w) for length, w in zip(lengths, waited, strict=True)])


def held_share(facts: Facts) -> float:
    """Return the share of the step in which communication holds up work of one rank."""
    held = facts.share_of(facts.held_up) * usual_step_factor(facts)
    return held + facts.bucket_share("collective_call")


def stage_share(facts: Facts) -> float:
    """Return the share of the step in which sends and receives hold up work of one rank."""
    calls = facts.collectives.take_rows(facts.collectives.kind == POINT_TO_POINT)
    return facts.share_of(facts.held_up & calls.in_flight) * usual_step_factor(facts)


def unsteady_share(facts: Facts) -> float:
    """Return the share of collective time beyond the fastest of its order in other steps, which one
    rank's steps show to be waiting; 0 where steps differ."""
    calls = facts.collectives.take_rows(_in_scope(facts))
    steps, counts = np.unique(calls.step, return_counts=True)
    if len(steps) < 2 or np.ptp(counts):
        return 0.0
    order = np.argsort(calls.step, kind="stable")
    took = calls.duration[order].reshape(len(steps), -1)
    kinds = calls.kind[order].reshape(len(steps), -1)
    if (kinds != kinds[0]).any() or not took.sum():
        return 0.0
    return float(1.0 - took.min(axis=0).sum() * len(steps) / took.sum())


def _hidden_by_log(ranks: Sequence[Facts]) -> float | None:
    """The hidden part of exchanges by DDP's own log, where no kernels were recorded."""
    overlaps = []
    for facts in ranks:
        ddp = None if len(facts.timeline.device) else facts.timeline.process.ddp
        if ddp and ddp.avg_backward_comm_time:
            overlap = ddp.avg_backward_compute_comm_overlap_time
            overlaps.append(min(overlap / ddp.avg_backward_comm_time, 1.0))
    return float(np.mean(overlaps)) if overlaps else None


def _mean_value(values: Sequence[float] | F64) -> float:
    return float(np.mean(values))


def _in_scope(facts: Facts) -> Mask:
    return facts.scope.contains_times(facts.collectives.start)


def _is_complete(ranks: Sequence[Facts], meetings: Meetings) -> bool:
    """Whether all ranks, enough matches and trusted clocks show that all the rest is transfer."""
    worlds = {facts.timeline.world_size for facts in ranks} - {None, len(ranks)}
    most = max(len(facts.collectives) for facts in ranks)
    matched = len(meetings) >= MOSTLY * most and meetings.clock_error_s is not None
    return len(ranks) > 1 and not worlds and matched
