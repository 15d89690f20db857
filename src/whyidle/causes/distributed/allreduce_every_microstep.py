"""Gradients are exchanged after every micro-batch of an accumulated step."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.source_lines import in_library
from whyidle.analysis.ranks.exposed_communication import held_share
from whyidle.analysis.ranks.gradient_exchanges import copy_shares, rhythm_of
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role

MOST_LOOKED = 200
"""backward passes whose samples are examined"""
HIDDEN_LESS = (0.5, 0.9, 1.0)
"""share of the exposed exchange that is gained (careful, expected, hopeful): the remaining one
sends all gradients, with a shorter backward pass to overlap with"""


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
    Only the sum is needed: N - 1 of N exchanges are wasted.

    How it is detected
    ------------------
    Between two optimizer steps there are several forward passes of DistributedDataParallel (in a
    watched run: backward passes), and each is followed by all-reduces, at least half as many as
    after any other. Lost time is (N - 1) / N of the exposed communication behind which work was
    queued (P7), mean over ranks. On a watched CPU job an exchange also occupies the training
    thread: all gradients are copied into buckets and back, at the memory bandwidth of one core.
    That time is in the compute bucket and predicted in addition to the finding's cost, which is
    waiting. Waiting for a rank that has more work in every step does not depend on the number of
    exchanges and does not count.

    What looks alike
    ----------------
    Two models that take turns (a GAN) have several forward passes and optimizer steps; exchanges
    are counted per optimizer step, so they do not match. Frameworks that accumulate by themselves
    (Lightning, Accelerate) already skip the exchange.

    What to do
    ----------
    Run all but the last micro-batch under ``with model.no_sync():``.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Skip unnecessary all-reduce if training with
    DistributedDataParallel and gradient accumulation".
    """
    rhythm = rhythm_of(job.lead_rank)
    held = float(np.mean([held_share(facts) for facts in job.ranks]))
    exposed = max(0.0, held - job.imbalance.loss_interval[0])
    if rhythm is None or rhythm.per_update < 2 or exposed < LEAST_SHARE:
        return None
    needless = 1.0 - 1.0 / rhythm.per_update
    handling = np.mean([copy_shares(facts) for facts in job.ranks], axis=0).tolist()
    low, likely, high = (
        needless * min(part * exposed + copied, 1.0)
        for part, copied in zip(HIDDEN_LESS, handling, strict=True)
    )
    copies = " and of their copies of gradients, which are part of compute" if handling[1] else ""
    return Proof(
        headline=f"Gradients are exchanged {rhythm.per_update} times per optimizer step; once is "
        f"enough{_describe_side_gain(needless * handling[1])}",
        low=needless * exposed * HIDDEN_LESS[0],
        high=needless * exposed,
        predicted=predict_removal(low, high, f"P7: (N - 1) / N of the exchanges{copies}", likely),
        evidence=(
            make_evidence("exchanges per update", rhythm.per_update, "1", source="host spans"),
            *_handling_evidence(handling[1]),
            make_evidence("communication that delays work, share of step", exposed, "ratio"),
            make_evidence("all-reduces per exchange", rhythm.calls, "1", source="host spans"),
        ),
        where=_backward_lines(job.lead_rank),
        confidence=0.9,
        facts=DistributedFacts(micro_batches=rhythm.per_update),
    )


def _describe_side_gain(share: float) -> str:
    """The gain besides the waiting that is this finding's cost; it is part of another bucket, so a
    fix may gain more than the finding costs."""
    if share < LEAST_SHARE:
        return ""
    return f", and also saves copies of gradients: about {share:.0%} of the step (in compute)"


def _handling_evidence(share: float) -> tuple[Evidence, ...]:
    if not share:
        return ()
    quantity = "copying gradients for exchanges, share of step"
    return (make_evidence(quantity, share, "ratio", source="bytes, at memory speed"),)


def _backward_lines(facts: Facts) -> tuple[Place, ...]:
    rows = facts.rows_of(Role.BACKWARD)[:MOST_LOOKED]
    counts = Counter(facts.places.place_of_samples(int(row)) for row in rows)
    places = [place for place, _ in counts.most_common() if place and not in_library(place)]
    return tuple(places[:1])
