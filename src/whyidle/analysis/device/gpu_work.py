"""How much of the time a GPU works, by recorded kernels or by NVML alone."""

from __future__ import annotations

from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.model.buckets import Bucket


class GpuWork(Struct, frozen=True):
    """Work of one GPU."""

    share: float
    """of the time in scope in which a GPU computes"""
    bucket: Bucket | None
    """bucket of the run that holds this time; None: the cause's own"""
    is_from_kernels: bool
    """whether kernels show it; NVML counts time of any kernel, collectives and copies included"""


def work_of(facts: Facts, gpu: str) -> GpuWork:
    """Return the work of one GPU of a process."""
    computed = facts.bucket_share("compute")
    if computed > 0.0:
        return GpuWork(computed, None, is_from_kernels=True)
    busy = facts.telemetry.mean_value("busy_ratio", gpu) if facts.telemetry else None
    return GpuWork(
        min(busy or 0.0, facts.bucket_share("unknown")), "unknown", is_from_kernels=False
    )
