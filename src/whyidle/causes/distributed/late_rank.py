"""A rank is late for collectives, but not because it computes longer."""

from __future__ import annotations

from whyidle.analysis.ranks.job import Job
from whyidle.causes.distributed import _rank_waiting
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration


@cause(
    "A rank is held up and the others wait for it",
    bucket="communication",
    needs=("several_ranks", "device_time", "steps"),
    scope="job",
)
def late_rank(job: Job) -> Proof | None:
    """What it means
    ----------------
    One rank reaches the collectives late because its loader, its host thread, a copy or an
    interruption delays it. The others wait for it.

    Why it costs
    ------------
    The slowest rank determines every step, so random delays of single ranks add up.

    How it is detected
    ------------------
    Collectives are matched across ranks as for ``rank-workload-imbalance``, and the exposed waiting
    of the others is the cost. The late rank does not compute longer. The report says why.

    If one rank is always late, the prediction makes it as fast as the slowest other one; if ranks
    take turns, every rank takes the mean (P8). Turns that run times do not explain are not
    reported.

    What looks alike
    ----------------
    Longer computing is reported as ``rank-workload-imbalance`` or ``fail-slow-device``.
    Communication that is slow for every rank is reported as ``exposed-gradient-comm``.

    What to do
    ----------
    Diagnose that rank's recording separately and fix what delays it. If ranks take turns, run
    Python's garbage collection at the same step on all ranks, keep logging and checkpoints off
    single ranks, and prefetch more.

    References
    ----------
    Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025
    (Python's garbage collector among the main causes).
    """
    late = _rank_waiting.find_late_rank(job)
    if late is None or late.reason == "compute":
        return None
    doing = _rank_waiting.DOING[late.reason]
    predict = _rank_waiting.predict_as_fast if late.is_constant else _rank_waiting.predict_even_work
    if late.is_constant:
        waited, own = _rank_waiting.waited_s(job, late), job.ranks[late.index]
        spent = own.attribution[late.reason] * own.step_s
        others = format_duration(max(spent - late.excess_s[late.reason], 0.0))
        headline = (
            f"Rank {late.rank} makes the others wait {format_duration(waited)} per step "
            f"({waited / own.step_s:.0%}), held up by {doing} ({format_duration(spent)}, others "
            f"{others}){_rank_waiting.describe_work(job, late)}"
        )
    else:
        headline = f"Ranks take turns being late (rank {late.rank} most often), held up by {doing}"
    predicted = predict(job, late)
    return _rank_waiting.make_proof(job, late, headline, predicted=predicted, confidence=0.8)
