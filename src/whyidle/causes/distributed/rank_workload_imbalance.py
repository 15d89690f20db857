"""Some ranks compute longer than others."""

from __future__ import annotations

from whyidle.analysis.ranks.job import Job
from whyidle.causes.distributed import _rank_waiting
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration


@cause(
    "Ranks have unequal work",
    bucket="communication",
    needs=("several_ranks", "device_time", "steps"),
    scope="job",
)
def rank_workload_imbalance(job: Job) -> Proof | None:
    """What it means
    ----------------
    Some ranks compute longer than others before they reach a collective, and the others wait.

    Why it costs
    ------------
    The slowest rank determines the step. On the other ranks, waiting looks like communication.

    How it is detected
    ------------------
    Collectives are matched across ranks, and the clocks are aligned by their ends. The rank with
    the shortest collectives is late. The additional time of the others, without concurrent useful
    work, is waiting. This cause is reported if the late rank computes longer and its kernels are
    not the same as those of the others.

    The prediction gives every rank the mean work (P8). The upper bound is all waiting, the lower
    bound the waiting for a rank that is late in every step. On a CPU, turns that run times do not
    explain are chance, and only the lower bound is expected. The expected gain is also reduced
    because balanced work runs on all cores at once, which may share arithmetic units.

    What looks alike
    ----------------
    The same kernels at a lower speed (on a CPU: the same CPU time, but longer waits for a core) are
    reported as ``fail-slow-device``. A slower CPU core looks like more work and is reported here. A
    delay by the loader, the host or an interruption is reported as ``late-rank``.

    What to do
    ----------
    If the late rank changes with the data, distribute samples by length (for attention, by the sum
    of squared lengths). If it is always the same, move layers between pipeline stages, split
    embedding tables evenly, or give every rank the same number of batches.

    References
    ----------
    Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025
    (the ideal with every rank at the mean; sequence lengths and last stages lead).
    """
    late = _rank_waiting.find_late_rank(job)
    if late is None or late.reason != "compute":
        return None
    excess = late.excess_s["compute"]
    if late.is_constant:
        headline = (
            f"Rank {late.rank} computes {format_duration(excess)} longer per step than the others, "
            f"which wait for it{_rank_waiting.describe_work(job, late)}"
        )
    else:
        headline = (
            f"Ranks take turns computing longest (rank {late.rank} most often), and the others wait"
        )
    return _rank_waiting.make_proof(
        job,
        late,
        headline,
        predicted=_rank_waiting.predict_even_work(job, late),
        confidence=0.85 if late.slower is not None else 0.75,
    )
