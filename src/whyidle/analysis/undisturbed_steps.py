"""Shares of steps that other programs did not lengthen."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.intervals import Intervals
from whyidle.analysis.step_scope import StepScope
from whyidle.analysis.telemetry_window import TelemetryWindow

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
