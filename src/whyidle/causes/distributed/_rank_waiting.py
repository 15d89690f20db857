"""Evidence and predictions that causes of waiting between ranks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_imbalance import LateRank, RankImbalance
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, MOSTLY, Proof
from whyidle.model.diagnosis import Evidence, Place, Predicted
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

RUNS = ("compute", "host")
"""buckets in which a delayed rank keeps its core busy"""
DOING = {
    "input": "loading data",
    "transfer": "copying to and from its device",
    "host": "Python or launching work",
    "sync": "its host thread after waits for its device",
    "interruption": "interruptions of its loop",
    "compute": "computing",
    "unknown": "something that the recording does not show",
}


def find_late_rank(job: Job) -> LateRank | None:
    """The rank that others wait for, unless they wait only briefly, or mostly because it waits for
    a core."""
    late = job.imbalance.late_rank
    if (
        late is None
        or late.slow_device
        or job.imbalance.loss_interval[1] * _own_share(late) < LEAST_SHARE
    ):
        return None
    always = job.imbalance.loss_interval[0] * _own_share(late)
    if is_by_chance(job, late) and always < LEAST_SHARE:
        return None
    return late


def is_by_chance(job: Job, late: LateRank) -> bool:
    """Whether ranks take turns by chance rather than because of their work: each rank's run time
    was recorded, and no rank's steps vary more than shared cores explain. Another distribution of
    the work then removes only the waiting for the same rank in every step."""
    paces = job.imbalance.paces
    return late.reason in RUNS and paces is not None and not paces.has_varying_work


def _shared_core_factor(job: Job, worth: float) -> float:
    """The part of the gain that remains if a core is slower while all cores are busy. On a CPU, the
    late rank works while the others wait, and may have a shared core to itself. Distributed over
    all ranks, the same work runs at the pace of shared cores.

    If one rank's excess w is distributed over n ranks, and a shared core has the fraction s of a
    core's speed, the gain is w (1 - 1 / (n s)) instead of w (1 - 1 / n). No recording shows whether
    cores are hardware threads of one core: virtual machines hide it.
    """
    count = len(job.ranks)
    return max(0.0, (count - 1.0 / worth) / (count - 1.0))


def _own_share(late: LateRank) -> float:
    """The share of the waiting that the late rank itself causes: without its waits for a core, and
    for computing or Python only what it runs longer."""
    own = 1.0 - late.contended
    return min(own, late.worked) if late.reason in RUNS else own


def predict_even_work(job: Job, late: LateRank) -> Predicted:
    """P8: every rank does the mean of the work. The lower bound is the waiting for the same rank in
    every step. On a CPU, varying work and jitter of the machine look alike. If some rank's work
    varies, the middle is expected; otherwise turns are chance and remain. Evenly distributed work
    runs on all cores at once, which may share arithmetic units."""
    low, high = (share * _own_share(late) for share in job.imbalance.loss_interval)
    method, sure = "P8: every rank's work at the mean", low * 0.9
    if job.imbalance.paces is None:
        return predict_removal(sure, high, method, high * 0.9)
    expected = (sure + (low if is_by_chance(job, late) else high)) / 2
    careful, likely, _ = (_shared_core_factor(job, worth) for worth in BUSY_CORE)
    return predict_removal(sure * careful, high, method, expected * likely)


def predict_as_fast(job: Job, late: LateRank) -> Predicted:
    """P8 with one rank as fast as the slowest of the others. The lower bound is half of it, because
    only the delay can be removed. For the upper bound, transfers overlap again as well."""
    found, hopeful = job.imbalance.gain_if_as_fast(late.index)
    found = max(found, job.imbalance.delay_share)
    won, most = found * _own_share(late), max(found, hopeful) * _own_share(late)
    return predict_removal(won * 0.5, most, "P8: that rank as fast as the slowest other", won * 0.9)


def waited_s(job: Job, late: LateRank) -> float:
    """How long the others wait for the late rank per step (s)."""
    return max(late.lateness_s, job.imbalance.delay_share * job.ranks[late.index].step_s)


def make_proof(
    job: Job, late: LateRank, headline: str, *, predicted: Predicted, confidence: float
) -> Proof:
    """The finding. Its cost is the waiting of ranks, at least the waiting in every step."""
    low, high = (share * _own_share(late) for share in job.imbalance.loss_interval)
    return Proof(
        headline=headline,
        low=low * 0.9,
        high=high,
        predicted=predicted,
        evidence=waiting_evidence(job, late),
        confidence=confidence,
        where=(_late_place(job, late),),
        facts=DistributedFacts(
            rank=late.rank,
            constant=late.is_constant,
            source=job.ranks[late.index].timeline.source.display_path,
            kinds=job.exposure.kinds if job.exposure else {},
        ),
    )


def describe_work(job: Job, late: LateRank) -> str:
    """Say what takes the late rank most of its delay, as the end of a sentence, if it is known."""
    work = _late_work(job, late)
    if work is None:
        return ""
    function = work.place.function if work.place else None
    return f", most of it in {function or work.name[:60]}"


def _late_work(job: Job, late: LateRank) -> LateWork | None:
    excess = late.excess_s[late.reason]
    return find_late_work(job.ranks, late.index, late.reason, excess)


def _late_place(job: Job, late: LateRank) -> Place:
    work = _late_work(job, late)
    place = _sampled_place(job, late) or (work.place if work else None)
    return place or Place(file=None, line=None, function=None, rank=late.rank)


def _sampled_place(job: Job, late: LateRank) -> Place | None:
    """Where most samples show the late rank in what delays it; None without stack samples."""
    facts, host = job.ranks[late.index], job.ranks[late.index].timeline.host
    seen = (HostKind.PYTHON, HostKind.OP) if late.reason == "compute" else (HostKind.PYTHON,)
    rows = np.flatnonzero(np.isin(host.kind, seen) & (host.detail >= 0))
    rows = rows[facts.time_of(late.reason).contains_times(host.start[rows])]
    if not len(rows):
        return None
    stacks, first, index = np.unique(host.detail[rows], return_index=True, return_inverse=True)
    took = np.bincount(index, (host.end - host.start)[rows], minlength=len(stacks))
    return facts.places.place_of(int(rows[first[took.argmax()]]))


def waiting_evidence(job: Job, late: LateRank) -> tuple[Evidence, ...]:
    """Which rank waits how long for which, and the clock error."""
    rank, source, shares = late.rank, "matched collectives", job.imbalance.loss_interval
    matched, decided = len(job.meetings), int(job.meetings.is_decided.sum())
    rows: tuple[tuple[str, float | str, str | None, int | None, str], ...] = (
        (f"the others wait for rank {rank}, per step", waited_s(job, late), "s", matched, source),
        (f"collectives with rank {rank} last", late.last_ratio, "ratio", decided, source),
        (f"steps with rank {rank} latest", late.steps_ratio, "ratio", None, source),
        ("exposed waiting, mean share of step", shares[1], "ratio", None, source),
        ("exposed waiting per rank", _format_shares(job.imbalance), None, None, source),
        (
            f"excess of rank {rank} per step, mostly {DOING[late.reason]}",
            *(late.excess_s[late.reason], "s", None, "attribution"),
        ),
        ("clock error", job.meetings.clock_error_s or 0.0, "s", matched, job.meetings.clock),
    )
    return tuple(
        make_evidence(quantity, value, unit, samples=samples, source=source)
        for quantity, value, unit, samples, source in rows
    )


def _format_shares(imbalance: RankImbalance) -> str:
    pairs = [
        (f"rank {facts.rank}: {share:.1%}", share)
        for facts, share in zip(imbalance.ranks, imbalance.waiting_s, strict=True)
    ]
    if len(pairs) > 16:
        pairs = sorted(pairs, key=lambda pair: pair[1])
        pairs = [*pairs[:4], *pairs[-4:]]
    return ", ".join(text for text, _ in pairs)


KINDS = (HostKind.PYTHON, HostKind.OP, HostKind.ANNOTATION)


class LateWork(NamedTuple):
    """What takes the late rank most of its delay."""

    name: str
    place: Place | None


def find_late_work(
    ranks: Sequence[Facts], index: int, reason: str, excess_s: float
) -> LateWork | None:
    """Return what takes rank number ``index`` at least half of its ``excess_s`` seconds per step in
    a bucket longer than the others: the innermost such function or operator, for *compute* a group
    of kernels. None where none is recorded, and for stack samples, which need no comparison."""
    late, others = ranks[index], [facts for i, facts in enumerate(ranks) if i != index]
    if late.timeline.source.format == "probe" or not others:
        return None
    find = _kernel_time if reason == "compute" else _host_time
    spent, rest = find(late, reason), [find(facts, reason) for facts in others]
    longer = {
        name: took - sum(one.get(name, 0.0) for one in rest) / len(rest)
        for name, took in spent.items()
    }
    explaining = [name for name, more in longer.items() if more >= MOSTLY * excess_s > 0.0]
    if not explaining:
        return None
    name = min(explaining, key=lambda one: spent[one])
    return LateWork(name, None if reason == "compute" else _place_of(late, name))


def _kernel_time(facts: Facts, reason: str) -> dict[str, float]:  # noqa: ARG001
    """Seconds per step by group of kernels."""
    groups, index = np.unique(facts.group[facts.kernels], return_inverse=True)
    seconds = np.bincount(index, facts.durations_s(facts.kernels), minlength=len(groups))
    per_step = seconds / max(facts.step_count, 1)
    return {f"{group} kernels": float(s) for group, s in zip(groups, per_step, strict=True)}


def _host_time(facts: Facts, reason: str) -> dict[str, float]:
    """Seconds per step in a bucket by name of the event around it."""
    host, time = facts.timeline.host, facts.time_of(reason)
    rows = np.flatnonzero(is_among(host.kind, KINDS) & is_among(host.thread, facts.host.drivers))
    rows = np.setdiff1d(rows, facts.timeline.rows_of(Role.PROFILER_STEP))
    inside = time.length_inside(host.start[rows], host.end[rows])
    totals = np.bincount(host.name[rows], inside, minlength=len(facts.timeline.names))
    per_step = totals / 1e9 / max(facts.step_count, 1)
    return {facts.timeline.names[i]: float(per_step[i]) for i in np.flatnonzero(per_step)}


def _place_of(facts: Facts, name: str) -> Place | None:
    host = facts.timeline.host
    rows = np.flatnonzero(host.name == facts.timeline.names.index(name))
    return facts.places.place_of(int(rows[np.argmax((host.end - host.start)[rows])]))
