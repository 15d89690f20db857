"""How much of the time a GPU works, where kernels were recorded and where only NVML tells."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.analysis.facts import Facts
from whyidle.model.buckets import Bucket


@dataclass(frozen=True, slots=True)
class Work:
    """``share`` of the time in scope in which a GPU computes; the ``bucket`` of the run that holds
    this time (None: the cause's own). ``told`` says whether kernels tell it: NVML counts time in
    which any kernel ran, collectives and copies included."""

    share: float
    bucket: Bucket | None
    told: bool


def work_of(facts: Facts, gpu: str) -> Work:
    """The work of one GPU of a process."""
    computed = facts.share("compute")
    if computed > 0.0:
        return Work(computed, None, told=True)
    busy = facts.outside.mean("busy_ratio", gpu) if facts.outside else None
    return Work(min(busy or 0.0, facts.share("unknown")), "unknown", told=False)
