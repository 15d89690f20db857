"""Use less of a GPU."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("gpu-too-big-for-job", consent="none")
def smaller_gpu(_proof: Proof) -> Proposal | None:
    """It frees hardware for others and makes nothing faster."""
    return Proposal(
        summary="use a MIG slice or a smaller GPU, or run several jobs on this one",
        risk="a slice has less memory",
        automatic=False,
    )
