"""Use less of a GPU."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment


@treatment("gpu-too-big-for-job", consent="none")
def smaller_gpu(_proof: Proof) -> Plan | None:
    """It frees hardware for others and makes nothing faster."""
    return Plan(
        summary="use a MIG slice or a smaller GPU, or run several jobs on this one",
        risk="a slice has less memory",
        automatic=False,
    )
