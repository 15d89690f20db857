"""Make room for a larger batch."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("memory-capacity-bound", consent="numerics")
def save_memory(_: Proof) -> Proposal:
    """Save device memory, then raise the batch. Advice: which way is cheapest depends on the
    model."""
    return Proposal(
        summary="bf16 autocast, fused cross-entropy, flash attention, selective activation "
        "checkpointing or sharded optimizer states; then a larger batch",
        risk="recomputing activations takes about a fifth longer; reduced precision moves the loss",
        automatic=False,
    )
