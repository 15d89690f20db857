"""A few slow batches empty a queue that is fast enough on average."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import STALL_ERROR, predict_removal
from whyidle.analysis.loader_workers import LoaderWorkers
from whyidle.analysis.worker_capacity import most_waiting
from whyidle.causes.input._worker_evidence import SOURCE, wait_evidence, workers_of
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

FACTORS = (2, 4, 8)
"""how much deeper the queue is made, at least and at most"""


@cause(
    "A few slow batches empty a shallow queue",
    bucket="input",
    needs=("device_time", "loader_marks", "worker_batches", "steady_steps"),
    watched=("device_marks", "loader_marks", "worker_batches", "steady_steps"),
    min_steps=8,
)
def bursty_loader_shallow_prefetch(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    On average the loader's workers are faster than training, but some batches take much longer
    than others, and too few finished ones lie ready to bridge them.

    Why it costs
    ------------
    Batches are returned in their order, so a slow one holds up those behind it, and with a full
    queue the other workers stand still.

    How it is detected
    ------------------
    The mean cost of a batch divided by the workers is shorter than the step without waiting, and
    yet the step waits. The measured costs, passed through a queue as deep as now, wait too, and
    through one four times as deep at most half as long. That replay for twice, four and eight
    times the depth gives the careful, expected and hopeful prediction. Waiting that the replay does
    not account for is the hand-off of batches that were ready; only the hopeful end takes it for
    more of the same. The first batches of an epoch wait in the replay as they do: workers begin
    none before the epoch does, however deep the queue.

    What looks alike
    ----------------
    Workers that are too slow on average: no queue is deep enough for them.

    What to do
    ----------
    Raise ``prefetch_factor`` to 4 or 8; group samples of like length, or split the longest ones.
    ``in_order=False`` returns whatever is ready, in another order.

    References
    ----------
    PyTorch, ``torch.utils.data.DataLoader``; Mohan et al., VLDB 2021.
    """
    workers = workers_of(facts, "burst")
    if workers is None:
        return None
    low, expected, high = _queue_gains(facts, workers)
    costs = (workers.batches_made["end"] - workers.batches_made["start"]) / 1e9
    return Proof(
        headline=f"A few slow batches (up to {format_duration(costs.max())} against "
        f"{format_duration(np.median(costs))}) empty a queue of {workers.depth}",
        low=low,
        high=high,
        predicted=predict_removal(low, high, "P2: replay through a deeper queue", expected),
        evidence=(
            *wait_evidence(workers, "cpu"),
            make_evidence("longest batch", float(costs.max()), "s", source=SOURCE),
            make_evidence("median batch", float(np.median(costs)), "s", source=SOURCE),
            make_evidence("queue depth", workers.depth, None, source="DataLoader"),
        ),
        confidence=0.85,
        where=(*workers.costliest_places, *workers.places_of("asked")),
        facts=InputFacts(
            prefetch=4 * workers.batches_ahead,
            was=workers.batches_ahead,
            most_prefetch=_deepest_queue(facts, workers),
        ),
    )


def _deepest_queue(facts: Facts, workers: LoaderWorkers) -> int | None:
    """The deepest queue of each worker that fits."""
    batches = most_waiting(facts, workers.depth)
    return None if batches is None else batches // workers.count


def _queue_gains(facts: Facts, workers: LoaderWorkers) -> tuple[float, float, float]:
    """Shares of the step that a deeper queue wins: careful, expected, hopeful."""
    now = workers.simulate_queue(workers.depth)
    said = now.total_s * workers.per_step / facts.step_s
    won = sorted(
        max(0.0, now.others - workers.simulate_queue(factor * workers.depth).others) / now.total_s
        for factor in FACTORS
    )
    known = min(said, workers.waiting_share)
    low, expected = max(0.0, won[0] * known - STALL_ERROR), won[1] * known
    return low, expected, max(expected, won[2] * workers.waiting_share)
