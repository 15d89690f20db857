"""Have the GPU alone."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("gpu-contention", consent="none")
def exclusive_gpu(_proof: Proof) -> Proposal | None:
    """Placement is the scheduler's or the neighbour's to change."""
    return Proposal(
        summary="run alone on the GPU: another device, exclusive process mode, or a MIG slice of "
        "its own",
        risk="none for this job",
        automatic=False,
    )
