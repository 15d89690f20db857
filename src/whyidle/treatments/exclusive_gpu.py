"""Have the GPU alone."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment


@treatment("gpu-contention", consent="none")
def exclusive_gpu(_proof: Proof) -> Plan | None:
    """Placement is the scheduler's or the neighbour's to change."""
    return Plan(
        summary="run alone on the GPU: another device, exclusive process mode, or a MIG slice of "
        "its own",
        risk="none for this job",
        automatic=False,
    )
