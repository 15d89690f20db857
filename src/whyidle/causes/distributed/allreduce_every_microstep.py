"""Gradients are exchanged after every micro-batch of an accumulated step."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.exposed_communication import held_share
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.gradient_exchanges import copy_shares, rhythm_of
from whyidle.analysis.job import Job
from whyidle.analysis.source_places import in_library
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role

MOST_LOOKED = 200
HIDDEN_LESS = (0.5, 0.9, 1.0)
"""part of the exposed exchange that is won, careful, expected and hopeful: the one that stays has
all gradients to send, and less of a backward pass to hide behind"""
LEAST_SHARE = 0.01
"""exposed share of the step below which communication is not worth a word"""


@cause(
    "Gradients are exchanged after every micro-batch",
    bucket="communication",
    needs=("device_time", "host_ops", "steps"),
    scope="job",
)
def allreduce_every_microstep(job: Job) -> Proof | None:
    """What it means
    ----------------
    The optimizer steps once per N micro-batches (gradient accumulation), but
    DistributedDataParallel averages the gradients over ranks after each of the N backward passes.

    Why it costs
    ------------
    Only the sum is needed: N - 1 of N exchanges are thrown away.

    How it is detected
    ------------------
    Between two optimizer steps lie several forward passes of DistributedDataParallel (of a watched
    run: backward passes), and each is followed by all-reduces, at least half as many as after any
    other. Lost time is (N - 1) / N of the exposed communication behind which work was queued (P7),
    mean over ranks. On a watched job of the CPU an exchange also keeps the training thread: all
    gradients are copied into buckets and back, at what memory gives one core. That lies in the
    bucket of computing: it is promised beside what the finding costs, which is waiting. What the
    others wait for a rank that has more to do in every step is not lost by the number of exchanges:
    they would wait as long at a single one.

    What looks alike
    ----------------
    Two models that take turns (a GAN) have several forward passes and optimizer steps; exchanges
    are counted per optimizer step, so they do not fire. Frameworks that accumulate by themselves
    (Lightning, Accelerate) skip the exchange already.

    What to do
    ----------
    Run all but the last micro-batch under ``with model.no_sync():``.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Skip unnecessary all-reduce if training with
    DistributedDataParallel and gradient accumulation".
    """
    rhythm = rhythm_of(job.lead_rank)
    exposed = max(0.0, _exposed_share(job) - job.imbalance.loss_interval[0])
    if rhythm is None or rhythm.per_update < 2 or exposed < LEAST_SHARE:
        return None
    needless = 1.0 - 1.0 / rhythm.per_update
    handling = np.mean([copy_shares(facts) for facts in job.ranks], axis=0).tolist()
    low, likely, high = (
        needless * min(part * exposed + beside, 1.0)
        for part, beside in zip(HIDDEN_LESS, handling, strict=True)
    )
    return Proof(
        headline=f"Gradients are exchanged {rhythm.per_update} times per optimizer step; once is "
        f"enough{_describe_side_gain(needless * handling[1])}",
        low=needless * exposed * HIDDEN_LESS[0],
        high=needless * exposed,
        predicted=predict_removal(low, high, _prediction_method(handling[1]), likely),
        evidence=(
            make_evidence(
                "exchanges of gradients per optimizer step",
                rhythm.per_update,
                "1",
                samples=rhythm.exchanges,
                source="host spans",
            ),
            *_handling_evidence(handling[1]),
            make_evidence(
                "communication that holds up work, without waiting for a rank that is always late, "
                "share of step",
                exposed,
                "ratio",
            ),
            make_evidence("all-reduces per exchange", rhythm.calls, "1", source="host spans"),
        ),
        where=_backward_lines(job.lead_rank),
        confidence=0.9,
        facts=DistributedFacts(micro_batches=rhythm.per_update),
    )


def _describe_side_gain(share: float) -> str:
    """What fewer exchanges win beside the waiting that is this finding's cost: it lies in another
    bucket, so a fix may bring more than the finding costs."""
    if share < LEAST_SHARE:
        return ""
    return f", and saves copying gradients, too: about {share:.0%} of the step, told as computing"


def _prediction_method(handling: float) -> str:
    copies = ", and of copying gradients for them, which is told as computing" if handling else ""
    return f"P7: (N - 1) / N of the exchanges{copies}"


def _handling_evidence(share: float) -> tuple[Evidence, ...]:
    if not share:
        return ()
    what = "copying gradients to exchange them, share of step"
    return (make_evidence(what, share, "ratio", source="bytes, at memory speed"),)


def _exposed_share(job: Job) -> float:
    return float(np.mean([held_share(facts) for facts in job.ranks]))


def _backward_lines(facts: Facts) -> tuple[Place, ...]:
    """The user's line that most stack samples in backward passes show; none without samples."""
    rows = facts.rows_of(Role.BACKWARD)[:MOST_LOOKED]
    found = Counter(facts.places.place_of_samples(int(row)) for row in rows)
    places = [place for place, _ in found.most_common() if place and not in_library(place)]
    return tuple(places[:1])
