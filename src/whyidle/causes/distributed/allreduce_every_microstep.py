"""Gradients are exchanged after every micro-batch of an accumulated step."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.source_lines import in_library
from whyidle.analysis.ranks.exposed_communication import held_share
from whyidle.analysis.ranks.gradient_exchanges import rhythm_of
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role

MOST_LOOKED = 200
"""backward passes whose samples are examined"""
HIDDEN_LESS = (0.5, 0.9, 1.0)
"""share of the exposed exchanges that is saved (low, expected, high): the remaining exchange sends
all gradients, with a shorter backward pass to overlap with"""


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
    Between two optimizer steps, several forward passes of DistributedDataParallel (watched run:
    backward passes) are each followed by all-reduces, at least half as many as after any other. The
    lost time is (N - 1) / N of the exposed communication that delays work (P7), as a mean over
    ranks. Waiting for a rank with more work does not count, because fewer exchanges do not shorten
    it.

    What looks alike
    ----------------
    Two models that train in turn (a GAN) also have several forward passes, but only one exchange
    per optimizer step. Lightning and Accelerate already skip the exchange.

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
    low, likely, high = (needless * part * exposed for part in HIDDEN_LESS)
    return Proof(
        headline=f"Gradients are exchanged {rhythm.per_update} times per optimizer step; once is "
        "enough",
        predicted=predict_removal(low, high, "P7: (N - 1) / N of the exchanges", likely),
        evidence=(
            make_evidence("exchanges per update", rhythm.per_update, "1", source="host spans"),
            make_evidence("communication that delays work, share of step", exposed, "ratio"),
            make_evidence("all-reduces per exchange", rhythm.calls, "1", source="host spans"),
        ),
        where=_backward_lines(job.lead_rank),
        confidence=0.9,
        facts=DistributedFacts(micro_batches=rhythm.per_update),
    )


def _backward_lines(facts: Facts) -> tuple[Place, ...]:
    rows = facts.rows_of(Role.BACKWARD)[:MOST_LOOKED]
    counts = Counter(facts.places.place_of_samples(int(row)) for row in rows)
    places = [place for place, _ in counts.most_common() if place and not in_library(place)]
    return tuple(places[:1])
