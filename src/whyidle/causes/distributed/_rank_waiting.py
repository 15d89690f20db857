"""What causes of waiting between ranks tell in common."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.core_capacity import BUSY_CORE
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.job import Job
from whyidle.analysis.rank_imbalance import MOSTLY, LateRank, RankImbalance
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Place, Predicted
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.timeline import HostKind

LEAST_SHARE = 0.01
"""share of the step that ranks wait for each other below which it is not worth a word"""
RUNS = ("compute", "host")
"""buckets in which a rank that is held up keeps its core busy"""
DOING = {
    "input": "loading data",
    "transfer": "copying to and from its device",
    "host": "Python or launching work",
    "sync": "its host thread, after it has waited for its device",
    "interruption": "interruptions of its loop",
    "compute": "computing",
    "unknown": "something the recording does not show",
}


def find_late_rank(job: Job) -> LateRank | None:
    """The rank that others wait for, where they wait long enough to speak of it, and not mostly
    because it waits for a core, or somebody stops one."""
    late = job.imbalance.late_rank
    if float(job.imbalance.stopped_share.mean()) >= MOSTLY * job.attribution["communication"] > 0.0:
        return None
    if (
        late is None
        or late.slow_device
        or job.imbalance.loss_interval[1] * _own_share(late) < LEAST_SHARE
    ):
        return None
    always = job.imbalance.loss_interval[0] * _own_share(late)
    if by_chance(job, late) and always < LEAST_SHARE and predict_relief(job, late) is None:
        return None
    return late


def by_chance(job: Job, late: LateRank) -> bool:
    """Whether nothing tells that ranks take turns for their work: it is told how long each ran, and
    no rank's own steps differ by more than what ranks on shared cores do to each other. Then only
    what falls on the same ranks in every step is won by dealing work differently."""
    paces = job.imbalance.paces
    return late.reason in RUNS and paces is not None and not paces.has_varying_work


def _beside_others(job: Job, worth: float) -> float:
    """The part of an even deal's gain that is left where each core is worth less while all are
    busy: on a CPU the late rank works while the others wait, and may have what its core shares with
    theirs to itself; taken over, the same work runs at a shared core's pace.

    With one rank's excess w (others idle) dealt over n ranks, each on a core worth s of one alone,
    w (1 - 1 / (n s)) is won instead of w (1 - 1 / n). No recording tells whether cores are hardware
    threads of one: machines that are rented hide it.
    """
    count = len(job.ranks)
    return max(0.0, (count - 1.0 / worth) / (count - 1.0))


def _own_share(late: LateRank) -> float:
    """The share of the waiting that is the late rank's own doing: not that it waits for a core, and
    where it is laid to computing or to Python, that it runs longer."""
    own = 1.0 - late.contended
    return min(own, late.worked) if late.reason in RUNS else own


def predict_even_work(job: Job, late: LateRank) -> Predicted:
    """P8: every rank does the mean of the work; what is late in every step is the careful end. On a
    CPU work and the machine's own jitter look alike, so between the two ends nothing is likelier
    where some rank's work varies; where none does, turns are chance, and stay. Work dealt evenly
    runs on all cores at once, which may share their units."""
    low, high = (share * _own_share(late) for share in job.imbalance.loss_interval)
    method, sure = "P8: every rank's work at the mean", low * 0.9
    if job.imbalance.paces is None:
        return predict_removal(sure, high, method, high * 0.9)
    expected = (sure + (low if by_chance(job, late) else high)) / 2
    careful, likely, _ = (_beside_others(job, worth) for worth in BUSY_CORE)
    return predict_removal(sure * careful, high, method, expected * likely)


def predict_as_fast(job: Job, late: LateRank) -> Predicted:
    """P8 with one rank as fast as the slowest of the others; half of it is the careful end, as
    only what holds the rank up can be removed; hopefully transfers are hidden again as well."""
    found, hopeful = job.imbalance.gain_if_as_fast(late.index)
    found = max(found, job.imbalance.delayed)
    won, most = found * _own_share(late), max(found, hopeful) * _own_share(late)
    return predict_removal(won * 0.5, most, "P8: that rank as fast as the slowest other", won * 0.9)


def predict_relief(job: Job, late: LateRank) -> Predicted | None:
    """P8 of a rank that runs Python which the others do not, on a CPU, where it is recorded how
    long each ran: it comes earlier to the recorded meetings by what it runs longer. At those that
    another rank comes late to by chance less is won; were there no such chance, all of it: chance
    is in part what ranks that share cores do to each other, so between the two nothing is likelier.
    None where it does not run longer."""
    if late.reason not in RUNS or job.imbalance.paces is None:
        return None
    won, most = job.imbalance.gain_if_earlier(late.index)
    if won < LEAST_SHARE:
        return None
    method = "P8: recorded meetings replayed without what that rank runs longer"
    return predict_removal(won * 0.5, most, method, (won + most) / 2)


def waited_s(job: Job, late: LateRank) -> float:
    """How long the others wait for the late rank in each step, s."""
    return max(late.lateness_s, job.imbalance.delayed * job.ranks[late.index].step_s)


def make_proof(
    job: Job, late: LateRank, headline: str, *, predicted: Predicted, confidence: float
) -> Proof:
    """The finding; lost is what ranks wait, at the careful end what they wait in every step."""
    low, high = (share * _own_share(late) for share in job.imbalance.loss_interval)
    return Proof(
        headline=headline,
        low=low * 0.9,
        high=high,
        predicted=predicted,
        evidence=waiting_evidence(job, late),
        confidence=confidence,
        where=(
            _sampled_place(job, late) or Place(file=None, line=None, function=None, rank=late.rank),
        ),
        facts=DistributedFacts(
            rank=late.rank,
            constant=late.is_constant,
            source=job.ranks[late.index].timeline.source.display_path,
        ),
    )


def _sampled_place(job: Job, late: LateRank) -> Place | None:
    """Where the late rank was seen longest in what holds it up; None without stack samples."""
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
    """Who waits how long for whom, and how well the clocks agree."""
    matched = len(job.meetings)
    source = "matched collectives"
    return (
        make_evidence(
            f"the others wait for rank {late.rank}, per step",
            waited_s(job, late),
            "s",
            samples=matched,
            source=source,
        ),
        make_evidence(
            f"collectives to which rank {late.rank} comes last",
            late.last_ratio,
            "ratio",
            samples=int(job.meetings.is_decided.sum()),
            source=source,
        ),
        make_evidence(
            f"steps in which rank {late.rank} is waited for most",
            late.steps_ratio,
            "ratio",
            source=source,
        ),
        make_evidence(
            "exposed waiting, mean share of step",
            job.imbalance.loss_interval[1],
            "ratio",
            source=source,
        ),
        make_evidence(
            "exposed waiting of each rank, share of step",
            _format_shares(job.imbalance),
            None,
            source=source,
        ),
        make_evidence(
            f"what rank {late.rank} spends beyond the others per step, mostly {DOING[late.reason]}",
            late.excess_s[late.reason],
            "s",
        ),
        make_evidence(
            "clock error between ranks",
            job.meetings.clock_error_s or 0.0,
            "s",
            samples=matched,
            source=job.meetings.clock,
        ),
    )


def _format_shares(imbalance: RankImbalance) -> str:
    """Shares of all ranks, or of the extreme ones where there are many."""
    pairs = [
        (f"rank {facts.rank}: {share:.1%}", share)
        for facts, share in zip(imbalance.ranks, imbalance.waiting, strict=True)
    ]
    if len(pairs) > 16:
        pairs = sorted(pairs, key=lambda pair: pair[1])
        pairs = [*pairs[:4], *pairs[-4:]]
    return ", ".join(text for text, _ in pairs)
