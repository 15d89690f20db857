"""Judge steady steps."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("compile-autotune-warmup", consent="none")
def steady_recording(_proof: Proof) -> Proposal | None:
    """Record after warm-up: a cold start says nothing about the steps that the job consists of."""
    return Proposal(
        summary="to judge the training itself, record steady steps: "
        "torch.profiler.schedule(wait=5, warmup=2, active=5, repeat=1)",
        risk="",
        automatic=False,
        faster=False,
    )
