"""How much of the time a GPU works, where kernels were recorded and where only NVML tells."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.analysis.facts import Facts
from whyidle.model.buckets import Bucket


@dataclass(frozen=True, slots=True)
class GpuWork:
    """``share`` of the time in scope in which a GPU computes; the ``bucket`` of the run that holds
    this time (None: the cause's own). ``told`` says whether kernels tell it: NVML counts time in
    which any kernel ran, collectives and copies included."""

    share: float
    bucket: Bucket | None
    told: bool


def work_of(facts: Facts, gpu: str) -> GpuWork:
    """The work of one GPU of a process."""
    computed = facts.bucket_share("compute")
    if computed > 0.0:
        return GpuWork(computed, None, told=True)
    busy = facts.telemetry.mean_value("busy_ratio", gpu) if facts.telemetry else None
    return GpuWork(min(busy or 0.0, facts.bucket_share("unknown")), "unknown", told=False)
