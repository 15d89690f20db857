"""A few slow batches empty a queue that is fast enough on average."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.loader_workers import LoaderWorkers
from whyidle.analysis.input.worker_capacity import most_waiting
from whyidle.analysis.steps.forecast import STALL_ERROR, predict_removal
from whyidle.causes.input._worker_evidence import SOURCE, wait_evidence, workers_of
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

FACTORS = (2, 4, 8)
"""factors of the queue depth: lower bound, expected, upper bound"""


@cause(
    "A few slow batches empty a shallow queue",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steady_steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steady_steps"),
    min_steps=8,
)
def bursty_loader_shallow_prefetch(facts: Facts) -> Proof | None:
    """What it means
    -------------
    On average the workers are faster than training, but the queue is too short for a few slow
    batches.

    Why it costs
    ------------
    The DataLoader returns batches in order, so a slow batch delays those behind it. When the queue
    is full, the other workers are idle.

    How it is detected
    ------------------
    The probe measures the time that each batch takes. Its mean divided by the number of workers is
    shorter than the step without waiting, yet the step waits. In a simulation of the measured
    batches, a queue four times as deep at least halves the waiting. Queues of two, four and eight
    times the depth give the lower bound, the expected gain and the upper bound. A deeper queue does
    not shorten the wait for the first batch of an epoch. Waiting that the simulation does not
    reproduce is hand-off; only the upper bound includes it.

    What looks alike
    ----------------
    Workers that are too slow on average are ``dataloader-too-few-workers``.

    What to do
    ----------
    Raise ``prefetch_factor`` to 4 or 8. Group samples of similar length, or split the longest ones.
    ``in_order=False`` returns batches as soon as they are ready.

    References
    ----------
    PyTorch, ``torch.utils.data.DataLoader``; Mohan et al., VLDB 2021.
    """
    workers = workers_of(facts, "burst")
    if workers is None:
        return None
    low, expected, high = _queue_gains(facts, workers)
    costs = (workers.batches_made["end"] - workers.batches_made["start"]) / 1e9
    longest, median = float(costs.max()), float(np.median(costs))
    room = most_waiting(facts, workers.depth)
    return Proof(
        headline=f"A few slow batches (up to {format_duration(longest)}, median "
        f"{format_duration(median)}) empty a queue of {workers.depth}",
        predicted=predict_removal(low, high, "P2: replay through a deeper queue", expected),
        evidence=(
            *wait_evidence(workers, "cpu"),
            make_evidence("longest batch", longest, "s", source=SOURCE),
            make_evidence("median batch", median, "s", source=SOURCE),
            make_evidence("queue depth", workers.depth, None, source="DataLoader"),
        ),
        confidence=0.85,
        where=(*workers.costliest_places, *workers.places_of("asked")),
        facts=InputFacts(
            prefetch=4 * workers.batches_ahead,
            was=workers.batches_ahead,
            most_prefetch=None if room is None else room // workers.count,
        ),
    )


def _queue_gains(facts: Facts, workers: LoaderWorkers) -> tuple[float, float, float]:
    now = workers.simulate_queue(workers.depth)
    explained = now.total_s * workers.per_step / facts.step_s
    gains = sorted(
        max(0.0, now.others - workers.simulate_queue(factor * workers.depth).others) / now.total_s
        for factor in FACTORS
    )
    known = min(explained, workers.waiting_share)
    low, expected = max(0.0, gains[0] * known - STALL_ERROR), gains[1] * known
    return low, expected, max(expected, gains[2] * workers.waiting_share)
