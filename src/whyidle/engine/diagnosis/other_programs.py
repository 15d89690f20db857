"""Other programs that kept the cores busy: every time is then one of such a machine."""

from __future__ import annotations

from typing import Final

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.analysis.telemetry_window import TelemetryWindow

FULL: Final = 0.9
"""use of all cores from which on there was none left to move to"""
FELT: Final = 0.1
"""share of all cores that others take from which on a job on a full machine feels them"""


def notes_on(job: Job) -> list[str]:
    """A note where the machine was full, and the job's own processes were not why."""
    outside = job.lead_rank.telemetry
    told = _cores_of_others(outside) if outside is not None else None
    if told is None:
        return []
    others, cores = told
    return [
        f"other programs used {others:.1f} of the machine's {cores:.0f} cores, and none was left "
        "idle: steps are longer for it, threads that wait for each other most of all, and what "
        "looks dear may be cheap on a quiet machine; watch it again there"
        + _of_operators(job.lead_rank, cores - others)
    ]


def _of_operators(facts: Facts, left: float) -> str:
    """What to try where operators have more threads than cores are left for them: each operator
    ends with the last of its threads, and that one may be without a core."""
    threads = facts.timeline.process.operator_threads or 1
    fit = max(1, round(left))
    if not facts.on_cpu or threads <= fit:
        return ""
    return (
        f", or with OMP_NUM_THREADS={fit} here: operators of this job run on {threads} threads, "
        "and end with the last of them (sums round otherwise)"
    )


def _cores_of_others(outside: TelemetryWindow) -> tuple[float, float] | None:
    """Cores that others used, and how many the machine has; None where that is not told, or not
    much, or where there was room for all."""
    busy = outside.summed_rate("machine_cpu_user_s", "machine_cpu_system_s", "machine_cpu_stolen_s")
    idle = outside.counter_rate("machine_cpu_idle_s")
    own = outside.summed_rate("job_cpu_user_s", "job_cpu_system_s")
    if busy is None or idle is None or own is None:
        return None
    cores, others = busy + idle, busy - own
    if cores <= 0.0:  # shorter than the kernel counts
        return None
    return (others, cores) if busy >= FULL * cores and others >= FELT * cores else None
