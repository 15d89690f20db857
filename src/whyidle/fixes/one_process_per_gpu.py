"""Use all visible GPUs."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("idle-allocated-gpu", consent="convergence")
def one_process_per_gpu(proof: Proof) -> Proposal | None:
    """One process per GPU. The global batch grows with them, which may change learning."""
    return Proposal(
        summary=f"torchrun --nproc-per-node={proof.facts.get('listed')} with "
        "DistributedDataParallel",
        risk="a larger global batch may need another learning rate; others may use these GPUs",
        automatic=False,
    )
