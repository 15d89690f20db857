"""Shares of steps that other programs did not lengthen."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.steps.step_scope import StepScope

FULL: Final = 0.9  # utilization of all cores from which the machine counts as full
FELT: Final = 0.1
"""least share of all cores that other programs take to affect a job on a full machine"""


def undisturbed_share(facts: StepScope, spans: Intervals) -> float:
    """Return the share of ``spans`` in steps. Where other programs filled the machine, it is that
    of the median step, if larger: threads of operators wait for each other, so a disturbed step
    grows most outside of ``spans`` that run on one thread."""
    share = facts.share_of(spans)
    if facts.telemetry is None or cores_of_others(facts.telemetry) is None:
        return share
    start, end = facts.steps.start[facts.steps_in_scope], facts.steps.end[facts.steps_in_scope]
    length = (end - start).astype(np.float64)
    rest = length - spans.length_inside(start, end)
    return max(share, 1.0 - float(np.median(rest) / max(np.median(length), 1.0)))


def cores_of_others(telemetry: TelemetryWindow) -> tuple[float, float] | None:
    """Return the cores that other programs used, and those of the machine; None if unknown or not a
    burden."""
    used = _read_cores(telemetry)
    if used is None:
        return None
    busy, cores = used.job + used.others, used.job + used.others + used.idle
    full = busy >= FULL * cores and used.others >= FELT * cores
    return (used.others, cores) if full else None


def growth_by_others(facts: StepScope, middle: int) -> float:
    """Return the seconds by which the steps from number ``middle`` on may be longer than those
    before because other programs had the cores: no more than these took more of the cores in a
    step, and no more than what the job itself did not compute in addition. Zero where a core is to
    spare, or nothing was read."""
    start, end = facts.steps.start[facts.steps_in_scope], facts.steps.end[facts.steps_in_scope]
    base, telemetry, length = facts.timeline.base_ns, facts.telemetry, (end - start) / 1e9
    if telemetry is None:
        return 0.0
    before = _read_cores(telemetry.part(base + int(start[0]), base + int(end[middle - 1])))
    after = _read_cores(telemetry.part(base + int(start[middle]), base + int(end[-1])))
    if before is None or after is None or after.idle >= 1.0:
        return 0.0
    early, late = float(length[:middle].mean()), float(length[middle:].mean())
    taken = (after.others - before.others) * late
    computed = after.job * late - before.job * early
    return max(0.0, min(taken, late - early - computed))


class _UsedCores(NamedTuple):
    """How many cores were used, by whom."""

    job: float
    others: float
    idle: float


def _read_cores(telemetry: TelemetryWindow) -> _UsedCores | None:
    busy = telemetry.summed_rate(
        "machine_cpu_user_s", "machine_cpu_system_s", "machine_cpu_stolen_s"
    )
    idle = telemetry.counter_rate("machine_cpu_idle_s")
    job = telemetry.summed_rate("job_cpu_user_s", "job_cpu_system_s")
    if busy is None or idle is None or job is None or busy + idle <= 0.0:
        return None  # unknown, or the window is shorter than a tick of the kernel
    return _UsedCores(job, busy - job, idle)
