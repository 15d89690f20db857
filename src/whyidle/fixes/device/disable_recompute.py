"""Store activations instead of computing them twice."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("needless-compute", consent="none", kinds=TRAINING)
def disable_recompute(proof: Proof) -> Proposal | None:
    """The numbers stay the same; memory grows by the stored activations. Declines where evaluation
    computes too much. Buffers of recomputed layers (batch norm) are then updated once per step."""
    if proof.get_facts(DeviceFacts).gradients:
        return None
    return Proposal(
        edits=(Edit(knob="model.checkpointing", value=False, was=True),),
        risk="memory runs out if sequences or batches grow later; batch norm in these layers "
        "counts each batch once, no longer twice",
    )
