"""Exposed communication of a job: how much, in how many calls, and what hiding it could win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.blocking_collectives import of_usual_steps
from whyidle.analysis.facts import Facts
from whyidle.analysis.rank_imbalance import RankImbalance
from whyidle.analysis.rank_meetings import Meetings

BACKWARD = 2 / 3
"""share of a training step's compute that is the backward pass, beside which gradients can travel:
twice the FLOPs of the forward pass"""
SLOWER_BESIDE = 1.34
"""collectives took this much longer than theory in Daydream's measurements (ATC 2020, NCCL)"""
GRADIENTS = ("all_reduce", "reduce_scatter")
BUCKET_BYTES = 25 << 20
"""``bucket_cap_mb`` of DistributedDataParallel"""
MATCHED = 0.5
"""with less than this share of a rank's collectives matched, waiting is not told from transfer"""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Shares are of the step, means over ranks.

    ``exposed`` is all exposed communication; ``held`` the part that holds up work: collectives
    behind which the next kernel was queued already, and idle time on the way to one. Of that,
    ``waiting`` is for late ranks as far as matched collectives tell (``told``: they tell all of it)
    or for one that somebody stops, ``stalled`` the part of the rest that is beyond what the same
    collective usually takes, ``unsteady_share`` what a single rank shows to be waiting, as it is
    not there in every step. ``in_flight`` is all time with a collective on its way,
    ``hidden_ratio`` the part of that beside useful work, ``calls`` collectives per step, ``kinds``
    their seconds per step by kind, ``mean_bytes`` and ``median_s`` of a call.
    """

    exposed: float
    held: float
    waiting: float
    stalled: float
    unsteady: float
    told: bool
    in_flight: float
    hidden_ratio: float
    compute: float
    calls: float
    kinds: dict[str, float]
    mean_bytes: float | None
    median_s: float

    @property
    def transfer(self) -> float:
        """What holds up work and is not known to be waiting."""
        return max(0.0, self.held - self.waiting - self.stalled)

    @property
    def overlappable(self) -> float:
        """Compute beside which nothing travels yet, but gradients could."""
        return max(0.0, BACKWARD * self.compute - self.hidden_ratio * self.in_flight)

    @property
    def overlap_gain(self) -> tuple[float, float]:
        """P7, ``T^ = T - X' + max(0, comm - overlappable)``: the share that overlapping wins, from
        half of what is surely transfer, on collectives that slow down beside compute, to all that
        has room; the last bucket has none."""
        most = max(0.0, min(self.transfer - self.last_bucket, self.overlappable))
        sure = min(most, self.held - self.unsteady)
        return max(0.0, sure) / (2 * SLOWER_BESIDE), most

    @property
    def last_bucket(self) -> float:
        """The share that no overlap hides: the gradients of the first layers are ready when the
        backward pass is over. One bucket of those that are sent, or of the usual size where fewer
        and larger ones are; 0 for exchanges that are not of gradients."""
        whole = sum(self.kinds.values())
        part = sum(self.kinds.get(kind, 0.0) for kind in GRADIENTS) / whole if whole else 0.0
        pieces = self.calls * max(1.0, (self.mean_bytes or 0.0) / BUCKET_BYTES)
        return part * self.in_flight / max(pieces, 1.0)

    def compression_gain(self, factor: float) -> float:
        """P7 with ``comm / factor``: the share won by sending fewer bytes."""
        return self.transfer * (1.0 - 1.0 / factor)


def find_exposure(
    every: Sequence[Facts], meetings: Meetings, imbalance: RankImbalance
) -> Exposure | None:
    """Of all ranks; None where no collective was recorded in scope."""
    ranks = [facts for facts in every if _in_scope(facts).any()]
    if not ranks:
        return None
    in_flight = _mean_value([_in_flight(facts) for facts in ranks])
    alone = _mean_value(
        [
            facts.bucket_share("collective") + facts.bucket_share("collective_wait")
            for facts in ranks
        ]
    )
    hidden = max(0.0, 1.0 - alone / in_flight) if in_flight else 0.0
    if (logged := _hidden_by_log(ranks)) is not None:
        hidden, in_flight = logged, alone / max(1.0 - logged, 0.05)
    held = [held_share(facts) for facts in ranks]
    first = ranks[0].collectives.take_rows(_in_scope(ranks[0]))
    sized = first.bytes[first.bytes >= 0]
    waiting, told = (
        max(_mean_value(imbalance.waiting), _mean_value(imbalance.stopped_share)),
        _is_complete(every, meetings),
    )
    if told:  # no transfer is longer than the shortest of its matched collectives
        calls = _mean_value([facts.bucket_share("collective_call") for facts in ranks])
        waiting = max(waiting, _mean_value(held) - calls - _transferred(ranks, meetings))
    stalled = max(0.0, _mean_value(held) - waiting) * meetings.held_up if told else 0.0
    return Exposure(
        exposed=_mean_value([facts.bucket_share("communication") for facts in ranks]),
        held=_mean_value(held),
        waiting=waiting,
        stalled=stalled,
        unsteady=_mean_value([h * unsteady_share(f) for h, f in zip(held, ranks, strict=True)]),
        told=told,
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


def _transferred(ranks: Sequence[Facts], meetings: Meetings) -> float:
    """Share of the step that matched collectives took once all ranks were there; those that are not
    matched count as all transfer."""
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
    return _mean_value([max(0.0, each - w) for each, w in zip(lengths, waited, strict=True)])


def held_share(facts: Facts) -> float:
    """Share of the step in which communication holds up work of one rank."""
    held = facts.share_of(facts.held_up) * of_usual_steps(facts)
    return held + facts.bucket_share("collective_call")


def _in_flight(facts: Facts) -> float:
    return min(1.0, facts.share_of(facts.collectives.in_flight) * of_usual_steps(facts))


def unsteady_share(facts: Facts) -> float:
    """Share of the time in collectives that one rank's own steps show to be waiting: what each
    takes beyond the fastest of its order and kind in other steps. A rank that waits equally in
    every step shows none; 0 where steps are not alike."""
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
    """The hidden part of DDP's exchanges by its own log, where a watched run shows only what is
    exposed; None where there is no such log, or kernels were recorded, which show it themselves."""
    found = []
    for facts in ranks:
        told = None if len(facts.timeline.device) else facts.timeline.process.ddp
        if told and told.avg_backward_comm_time:
            overlap = told.avg_backward_compute_comm_overlap_time
            found.append(min(overlap / told.avg_backward_comm_time, 1.0))
    return float(np.mean(found)) if found else None


def _mean_value(values: Sequence[float] | NDArray[np.float64]) -> float:
    return float(np.mean(values))


def _in_scope(facts: Facts) -> NDArray[np.bool_]:
    return facts.scope.contains_times(facts.collectives.start)


def _is_complete(ranks: Sequence[Facts], meetings: Meetings) -> bool:
    """Whether all ranks are there, enough of their collectives are matched, and the clocks are
    trusted: then what is not waiting is transfer."""
    worlds = {facts.timeline.world_size for facts in ranks} - {None, len(ranks)}
    most = max(len(facts.collectives) for facts in ranks)
    matched = len(meetings) >= MATCHED * most and meetings.clock_error_s is not None
    return len(ranks) > 1 and not worlds and matched
