"""A rank is late for collectives, but not because it computes longer."""

from __future__ import annotations

from dataclasses import replace

from whyidle.analysis.ranks.job import Job
from whyidle.causes.distributed import _rank_waiting
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import DistributedFacts


@cause(
    "A rank is held up and the others wait for it",
    bucket="communication",
    needs=("several_ranks", "device_time", "steps"),
    scope="job",
)
def late_rank(job: Job) -> Proof | None:
    """What it means
    ----------------
    One rank is late for collectives because its loader, its host thread, a copy or an interruption
    delays it. The others wait for it.

    Why it costs
    ------------
    One rank's stall delays all: random delays of ranks add up over the job, because the slowest
    rank determines every step.

    How it is detected
    ------------------
    As for ``rank-workload-imbalance``: the rank with the shortest collectives is late, and the
    others' exposed waiting is its cost. The late rank does not compute longer; the finding names
    what takes it more time. On a watched CPU, where samples miss the ends of Python, up to twice
    the sampled time may explain what it computes longer outside of its backward passes. The gain is
    P8: with one rank always late, that rank as fast as the slowest other one; with turns, every
    rank at the mean. Where Python delays it, and ranks on a CPU record their run time, only what
    the late one runs longer counts: the recorded meetings are replayed with it earlier by that
    much, and ranks that were late by chance still are; turns that no rank's own steps explain are
    not reported.

    What looks alike
    ----------------
    Longer computing is ``rank-workload-imbalance`` or ``fail-slow-device``. Communication that is
    slow for everyone is ``exposed-gradient-comm``.

    What to do
    ----------
    Diagnose that rank's recording by itself and fix what delays it. Where ranks take turns: collect
    Python's garbage at the same step everywhere, keep logging and checkpoints off single ranks, and
    let loaders prefetch more.

    References
    ----------
    Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI
    2025 (Python's garbage collector among the main causes).
    """
    late = _rank_waiting.find_late_rank(job)
    if late is None or late.reason == "compute":
        return None
    doing, relieved = _rank_waiting.DOING[late.reason], _rank_waiting.predict_relief(job, late)
    usual = _rank_waiting.predict_as_fast if late.is_constant else _rank_waiting.predict_even_work
    if late.is_constant:
        headline = (
            f"Rank {late.rank} makes the others wait "
            f"{format_duration(_rank_waiting.waited_s(job, late))} per step, held up by {doing}"
            f"{_rank_waiting.describe_work(job, late)}"
        )
    elif relieved is not None:
        headline = f"Rank {late.rank} is late most often, held up by {doing}"
    else:
        headline = f"Ranks take turns being late (rank {late.rank} most often), held up by {doing}"
    proof = _rank_waiting.make_proof(
        job, late, headline, predicted=relieved or usual(job, late), confidence=0.8
    )
    if relieved is None:
        return proof
    high = max(proof.high, min(job.imbalance.loss_interval[1], 1.0 - 1.0 / relieved.high))
    return replace(
        proof, high=high, facts=replace(proof.get_facts(DistributedFacts), constant=True)
    )
