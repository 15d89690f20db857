"""One device takes longer than the others for the same kernels."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.forecast import remove
from whyidle.analysis.job import Job
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Place

LEAST_SHARE = 0.01
"""share of the step that ranks wait below which it is not worth a word"""


@cause(
    "One device is slower than the others at the same work",
    bucket="communication",
    needs=("several_ranks", "device_events", "steps"),
    scope="job",
)
def fail_slow_device(job: Job) -> Proof | None:
    """What it means
    ----------------
    One rank launches the same kernels, as often and with the same grids as the others, but they
    take longer on its device: lower clocks, heat, a power limit, memory faults, a neighbour.

    Why it costs
    ------------
    In synchronous training the slowest device sets the pace of all.

    How it is detected
    ------------------
    The others wait for this rank at the collectives (see ``rank-workload-imbalance``), it computes
    longer, and kernels that make up nine tenths of its time have the same names, numbers and grid
    sizes as on every other rank but take at least 5 % longer in sum. The gain is P8 with that
    device at the speed of the slowest other one.

    What looks alike
    ----------------
    More work gives other grids or more launches: ``rank-workload-imbalance``. Where grids were not
    recorded it cannot be told apart, and that cause is reported.

    What to do
    ----------
    Compare clocks, temperature and power of the devices (``nvidia-smi -q``), drain the node,
    replace the device.

    References
    ----------
    Wu et al., "Greyhound: Hunting Fail-Slows in Hybrid-Parallel Training at Scale", USENIX ATC
    2025.
    """
    imbalance, late = job.imbalance, job.imbalance.laggard
    if late is None or late.slower is None or not late.slow_device:
        return None
    low, high = imbalance.lost
    if high < LEAST_SHARE:
        return None
    freed, most = imbalance.freed(late.index)
    return Proof(
        headline=f"The device of rank {late.rank} takes {late.slower - 1.0:.0%} longer for the "
        "same kernels, and the others wait for it",
        low=low * 0.9,
        high=high,
        predicted=remove(freed * 0.8, most, "P8: that device as fast as the slowest other", freed),
        evidence=(
            measured(
                "time of the same kernels against the other ranks",
                late.slower,
                "ratio",
                samples=job.ranks[late.index].step_count,
                source="device events",
            ),
            measured(
                f"the others wait for rank {late.rank}, per step",
                late.lateness_s,
                "s",
                samples=len(job.meetings),
                source="matched collectives",
            ),
            measured(
                "steps in which it is the late one",
                late.steps_ratio,
                "ratio",
                source="matched collectives",
            ),
            measured(
                "clock error between ranks",
                job.meetings.clock_error_s or 0.0,
                "s",
                source="ends of collectives",
            ),
        ),
        confidence=0.85,
        where=(Place(file=None, line=None, function=None, rank=late.rank),),
        facts={"rank": late.rank},
    )
