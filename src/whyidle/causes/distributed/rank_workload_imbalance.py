"""Some ranks compute more than others."""

from __future__ import annotations

from whyidle.analysis.job import Job
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
    Some ranks compute longer than others before they come to a collective, and the others wait.

    Why it costs
    ------------
    Every step is as long as the slowest rank's. The time that the others spend spinning in the
    collective shows as communication, on the ranks that are *not* at fault.

    How it is detected
    ------------------
    Collectives are matched across ranks and the clocks aligned by their ends. The late rank is the
    one with the shortest collectives; what others have beyond it, and nothing useful beside, is
    waiting. It is laid to unequal work where the late rank computes longer than the others, unless
    its kernels are provably the same ones. More work takes longer in the backward pass, too: of a
    watched job on a CPU that runs more Python as well, what is longer outside of it alone is taken
    for Python, up to as much again as was seen. The gain is P8, every rank at the mean: all waiting
    is the hopeful end, the part that falls on the same ranks in every step the careful one. Where
    ranks on a CPU tell how long they ran, and no rank's own steps differ by more than sharing cores
    makes the same work differ, turns are chance: only that part is expected, and without it nothing
    is reported. Work that others take over runs beside theirs then, on cores that may be halves of
    one, which lowers what is expected, and the careful end more.

    What looks alike
    ----------------
    The same kernels on the same shapes, only slower, or on a CPU the same CPU time with less of a
    core: ``fail-slow-device``. (A CPU core that is slower by itself makes the same work take more
    CPU time: that cannot be told from more work, and is reported here.) A rank held up by its
    loader, its host or an interruption: ``late-rank``.

    What to do
    ----------
    Late rank changes with the data: deal samples by length (sum of squared lengths for attention).
    Always the same: move layers between pipeline stages, split embedding tables evenly, give every
    rank equally many batches.

    References
    ----------
    Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI
    2025 (the ideal with every rank at the mean; sequence lengths and last stages lead).
    """
    late = _rank_waiting.find_late_rank(job)
    if late is None or late.reason != "compute":
        return None
    excess = late.excess_s["compute"]
    if late.is_constant:
        headline = (
            f"Rank {late.rank} computes {format_duration(excess)} longer per step than the others, "
            "which wait for it"
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
