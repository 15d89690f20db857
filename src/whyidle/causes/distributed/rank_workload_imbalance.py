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
    Every step is as long as the slowest rank's. The time that the others spend spinning in the
    collective appears as communication, on the ranks that are *not* at fault.

    How it is detected
    ------------------
    Collectives are matched across ranks and the clocks aligned by their ends. The late rank is the
    one with the shortest collectives; the excess of the others, without concurrent useful work, is
    waiting. Unequal work is the cause where the late rank computes longer than the others, unless
    its kernels are provably the same ones. More work also lengthens the backward pass: for a
    watched CPU job that runs more Python as well, time outside of it counts as Python, up to twice
    the sampled time. The gain is P8, every rank at the mean: all waiting is the upper bound, the
    part that falls on the same ranks in every step the lower. Where ranks on a CPU record their run
    time, and no rank's own steps vary more than shared cores explain, turns are chance: only that
    part is expected, and without it nothing is reported. Work that others take over then runs
    concurrently, on cores that may share arithmetic units, which lowers the expected gain, and even
    more its lower bound.

    What looks alike
    ----------------
    The same kernels on the same shapes, only slower, or on a CPU the same CPU time with less of a
    core: ``fail-slow-device``. (A slower CPU core makes the same work take more CPU time: this
    cannot be distinguished from more work, and is reported here.) A rank delayed by its loader, its
    host or an interruption: ``late-rank``.

    What to do
    ----------
    If the late rank changes with the data, deal samples by length (sum of squared lengths for
    attention). If it is always the same, move layers between pipeline stages, split embedding
    tables evenly, give every rank the same number of batches.

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
