"""Other programs that compete for the machine's cores."""

from __future__ import annotations

from typing import Final

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.analysis.telemetry_window import TelemetryWindow

FULL: Final = 0.9  # utilization of all cores from which the machine counts as full
FELT: Final = 0.1
"""least share of all cores that other programs take to affect a job on a full machine"""


def notes_on(job: Job) -> list[str]:
    """A note if other programs filled the machine's cores."""
    telemetry = job.lead_rank.telemetry
    load = _cores_of_others(telemetry) if telemetry is not None else None
    if load is None:
        return []
    others, cores = load
    return [
        f"other programs used {others:.1f} of the machine's {cores:.0f} cores and no core was "
        "idle: this lengthens steps, above all where threads wait for each other, and distorts "
        "the shares; repeat the run on an idle machine"
        + _of_operators(job.lead_rank, cores - others)
    ]


def _of_operators(facts: Facts, left: float) -> str:
    """Suggest fewer operator threads if there are more than free cores: an operator ends when its
    last thread ends, and that one may be waiting for a core."""
    threads = facts.timeline.process.operator_threads or 1
    fit = max(1, round(left))
    if not facts.on_cpu or threads <= fit:
        return ""
    return (
        f", or set OMP_NUM_THREADS={fit} here: operators of this job use {threads} threads, and "
        "each waits for its slowest thread (changes rounding)"
    )


def _cores_of_others(telemetry: TelemetryWindow) -> tuple[float, float] | None:
    """Cores that others used, and cores of the machine; None if unknown or not a burden."""
    busy = telemetry.summed_rate(
        "machine_cpu_user_s", "machine_cpu_system_s", "machine_cpu_stolen_s"
    )
    idle = telemetry.counter_rate("machine_cpu_idle_s")
    job_cores = telemetry.summed_rate("job_cpu_user_s", "job_cpu_system_s")
    if busy is None or idle is None or job_cores is None:
        return None
    cores, others = busy + idle, busy - job_cores
    if cores <= 0.0:  # the window is shorter than a tick of the kernel
        return None
    return (others, cores) if busy >= FULL * cores and others >= FELT * cores else None
