"""Keep the operator on the GPU."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("cpu-fallback-op", consent="rounding")
def move_op_to_device(proof: Proof) -> Proposal:
    """Move the module, buffer or constant to the device, or replace an operator that has no GPU
    form. Advice: it needs a change of the source."""
    names = proof.facts.get("operators") or ["the operator"]
    return Proposal(
        summary=f"keep {names[0]} on the GPU: move its module, buffer or inputs there once, or "
        "replace it; else do its work before the step",
        risk="device memory for what moves; an operator's GPU form may round differently",
        automatic=False,
    )
