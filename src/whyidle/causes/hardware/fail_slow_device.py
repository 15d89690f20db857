"""One device takes longer than the others for the same kernels."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_imbalance import LateRank
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HardwareFacts


@cause(
    "One device is slower than the others at the same work",
    bucket="communication",
    needs=("several_ranks", "device_time", "steps"),
    scope="job",
)
def fail_slow_device(job: Job) -> Proof | None:
    """What it means
    ----------------
    One rank launches the same kernels as the others, but its device takes longer: lower clocks,
    heat, a power limit, memory errors, another job. On a CPU, the rank gets less CPU time than the
    others, because of another program, a low priority or a quota.

    Why it costs
    ------------
    In synchronous training the slowest device determines the pace of all.

    How it is detected
    ------------------
    The others wait for this rank in at least 80 % of the steps. On a GPU, 90 % of its kernel time
    is in kernels with the same names, numbers of launches and grids on all ranks, and these take at
    least 5 % longer on this rank. In a watched job on a CPU, its additional wait for a core
    explains at least half of the waiting. The prediction makes it as fast as the slowest other rank
    (P8).

    What looks alike
    ----------------
    Other grids or more launches mean more work: ``rank-workload-imbalance``. That cause is also
    reported if grids were not recorded, or if the late rank's thread on a CPU runs longer.

    What to do
    ----------
    Compare clocks, temperature and power of the devices (``nvidia-smi -q``). Drain the node or
    replace the device. On a CPU, give every rank its own cores.

    References
    ----------
    Wu et al., "Greyhound: Hunting Fail-Slows in Hybrid-Parallel Training at Scale", USENIX ATC
    2025.
    """
    imbalance, late = job.imbalance, job.imbalance.late_rank
    if late is None or not late.slow_device:
        return None
    short = late.short_of_cpu
    part = late.contended if short else 1.0
    low, high = (share * part for share in imbalance.loss_interval)
    if high < LEAST_SHARE:
        return None
    freed, most = (share * part for share in imbalance.gain_if_as_fast(late.index))
    meetings, source = job.meetings, "matched collectives"
    return Proof(
        headline=_make_headline(job, late),
        low=low * 0.9,
        high=high,
        predicted=predict_removal(freed * 0.8, most, "P8: as fast as the slowest other", freed),
        evidence=(
            *(_core_evidence(job) if short else _kernel_evidence(job, late)),
            make_evidence(f"wait for rank {late.rank}", late.lateness_s, "s", source=source),
            make_evidence("steps in which it is late", late.steps_ratio, "ratio", source=source),
            make_evidence("clock error", meetings.clock_error_s or 0.0, "s", source=meetings.clock),
        ),
        confidence=0.85,
        where=(Place(file=None, line=None, function=None, rank=late.rank),),
        facts=HardwareFacts(rank=late.rank, cpu=short),
    )


def _make_headline(job: Job, late: LateRank) -> str:
    if not late.short_of_cpu or job.imbalance.paces is None:
        return (
            f"The device of rank {late.rank} takes {(late.slower or 1.0) - 1.0:.0%} longer for the "
            "same kernels, and the others wait for it"
        )
    _, queued = job.imbalance.paces.pace_of(late.index)
    return (
        f"Rank {late.rank} waits {format_duration(queued)} of each step for a CPU core, and the "
        "others wait for it"
    )


def _kernel_evidence(job: Job, late: LateRank) -> tuple[Evidence, ...]:
    name = "kernel time relative to the other ranks"
    steps = job.ranks[late.index].step_count
    return (
        make_evidence(name, late.slower or 1.0, "ratio", samples=steps, source="device events"),
    )


def _core_evidence(job: Job) -> tuple[Evidence, ...]:
    paces = job.imbalance.paces
    if paces is None:
        return ()
    evidence = [
        make_evidence(f"rank {facts.rank} {what}, per step", seconds, "s", source="schedstat")
        for index, facts in enumerate(job.ranks)
        for what, seconds in zip(("runs", "waits for a core"), paces.pace_of(index), strict=True)
    ]
    return tuple(evidence[:16])
