"""Cool the GPU."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("thermal-throttle", consent="none")
def cooler_gpu(_proof: Proof) -> Proposal | None:
    """Cooling is for the machine's owner to change."""
    return Proposal(
        summary="look after cooling (nvidia-smi -q -d TEMPERATURE,PERFORMANCE), move the job to "
        "another node, or lower the power limit a little to avoid swings",
        risk="none",
        automatic=False,
    )
