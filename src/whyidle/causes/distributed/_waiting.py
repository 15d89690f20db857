"""What causes of waiting between ranks tell in common."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.cores import BUSY_CORE
from whyidle.analysis.evidence import measured
from whyidle.analysis.forecast import remove
from whyidle.analysis.imbalance import MOSTLY, Imbalance, Laggard
from whyidle.analysis.job import Job
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


def laggard(job: Job) -> Laggard | None:
    """The rank that others wait for, where they wait long enough to speak of it, and not mostly
    because it waits for a core, or somebody stops one."""
    late = job.imbalance.laggard
    if float(job.imbalance.stopped.mean()) >= MOSTLY * job.attribution["communication"] > 0.0:
        return None
    if late is None or late.slow_device or job.imbalance.lost[1] * _own(late) < LEAST_SHARE:
        return None
    always = job.imbalance.lost[0] * _own(late)
    if by_chance(job, late) and always < LEAST_SHARE and relieved(job, late) is None:
        return None
    return late


def by_chance(job: Job, late: Laggard) -> bool:
    """Whether nothing tells that ranks take turns for their work: it is told how long each ran, and
    no rank's own steps differ by more than what ranks on shared cores do to each other. Then only
    what falls on the same ranks in every step is won by dealing work differently."""
    paces = job.imbalance.paces
    return late.reason in RUNS and paces is not None and not paces.varied


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


def _own(late: Laggard) -> float:
    """The share of the waiting that is the late rank's own doing: not that it waits for a core, and
    where it is laid to computing or to Python, that it runs longer."""
    own = 1.0 - late.contended
    return min(own, late.worked) if late.reason in RUNS else own


def even(job: Job, late: Laggard) -> Predicted:
    """P8: every rank does the mean of the work; what is late in every step is the careful end. On a
    CPU work and the machine's own jitter look alike, so between the two ends nothing is likelier
    where some rank's work varies; where none does, turns are chance, and stay. Work dealt evenly
    runs on all cores at once, which may share their units."""
    low, high = (share * _own(late) for share in job.imbalance.lost)
    method, sure = "P8: every rank's work at the mean", low * 0.9
    if job.imbalance.paces is None:
        return remove(sure, high, method, high * 0.9)
    expected = (sure + (low if by_chance(job, late) else high)) / 2
    careful, likely, _ = (_beside_others(job, worth) for worth in BUSY_CORE)
    return remove(sure * careful, high, method, expected * likely)


def freed(job: Job, late: Laggard) -> Predicted:
    """P8 with one rank as fast as the slowest of the others; half of it is the careful end, as
    only what holds the rank up can be removed; hopefully transfers are hidden again as well."""
    found, hopeful = job.imbalance.freed(late.index)
    found = max(found, job.imbalance.delayed)
    won, most = found * _own(late), max(found, hopeful) * _own(late)
    return remove(won * 0.5, most, "P8: that rank as fast as the slowest other", won * 0.9)


def relieved(job: Job, late: Laggard) -> Predicted | None:
    """P8 of a rank that runs Python which the others do not, on a CPU, where it is recorded how
    long each ran: it comes earlier to the recorded meetings by what it runs longer. At those that
    another rank comes late to by chance less is won; were there no such chance, all of it: chance
    is in part what ranks that share cores do to each other, so between the two nothing is likelier.
    None where it does not run longer."""
    if late.reason not in RUNS or job.imbalance.paces is None:
        return None
    won, most = job.imbalance.relieved(late.index)
    if won < LEAST_SHARE:
        return None
    method = "P8: recorded meetings replayed without what that rank runs longer"
    return remove(won * 0.5, most, method, (won + most) / 2)


def waited_s(job: Job, late: Laggard) -> float:
    """How long the others wait for the late rank in each step, s."""
    return max(late.lateness_s, job.imbalance.delayed * job.ranks[late.index].step_s)


def proof(
    job: Job, late: Laggard, headline: str, *, predicted: Predicted, confidence: float
) -> Proof:
    """The finding; lost is what ranks wait, at the careful end what they wait in every step."""
    low, high = (share * _own(late) for share in job.imbalance.lost)
    return Proof(
        headline=headline,
        low=low * 0.9,
        high=high,
        predicted=predicted,
        evidence=evidence(job, late),
        confidence=confidence,
        where=(_sampled(job, late) or Place(file=None, line=None, function=None, rank=late.rank),),
        facts=DistributedFacts(
            rank=late.rank,
            constant=late.constant,
            source=job.ranks[late.index].timeline.source.shown,
        ),
    )


def _sampled(job: Job, late: Laggard) -> Place | None:
    """Where the late rank was seen longest in what holds it up; None without stack samples."""
    facts, host = job.ranks[late.index], job.ranks[late.index].timeline.host
    seen = (HostKind.PYTHON, HostKind.OP) if late.reason == "compute" else (HostKind.PYTHON,)
    rows = np.flatnonzero(np.isin(host.kind, seen) & (host.detail >= 0))
    rows = rows[facts.part(late.reason).covers(host.start[rows])]
    if not len(rows):
        return None
    stacks, first, index = np.unique(host.detail[rows], return_index=True, return_inverse=True)
    took = np.bincount(index, (host.end - host.start)[rows], minlength=len(stacks))
    return facts.places.of(int(rows[first[took.argmax()]]))


def evidence(job: Job, late: Laggard) -> tuple[Evidence, ...]:
    """Who waits how long for whom, and how well the clocks agree."""
    matched = len(job.meetings)
    source = "matched collectives"
    return (
        measured(
            f"the others wait for rank {late.rank}, per step",
            waited_s(job, late),
            "s",
            samples=matched,
            source=source,
        ),
        measured(
            f"collectives to which rank {late.rank} comes last",
            late.last_ratio,
            "ratio",
            samples=int(job.meetings.decided.sum()),
            source=source,
        ),
        measured(
            f"steps in which rank {late.rank} is waited for most",
            late.steps_ratio,
            "ratio",
            source=source,
        ),
        measured(
            "exposed waiting, mean share of step", job.imbalance.lost[1], "ratio", source=source
        ),
        measured(
            "exposed waiting of each rank, share of step",
            _listed(job.imbalance),
            None,
            source=source,
        ),
        measured(
            f"what rank {late.rank} spends beyond the others per step, mostly {DOING[late.reason]}",
            late.excess_s[late.reason],
            "s",
        ),
        measured(
            "clock error between ranks",
            job.meetings.clock_error_s or 0.0,
            "s",
            samples=matched,
            source=job.meetings.clock,
        ),
    )


def _listed(imbalance: Imbalance) -> str:
    """Shares of all ranks, or of the extreme ones where there are many."""
    pairs = [
        (f"rank {facts.rank}: {share:.1%}", share)
        for facts, share in zip(imbalance.ranks, imbalance.waiting, strict=True)
    ]
    if len(pairs) > 16:
        pairs = sorted(pairs, key=lambda pair: pair[1])
        pairs = [*pairs[:4], *pairs[-4:]]
    return ", ".join(text for text, _ in pairs)
