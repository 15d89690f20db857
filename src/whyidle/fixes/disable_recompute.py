"""Keep activations instead of computing them twice."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("needless-compute", consent="none")
def disable_recompute(proof: Proof) -> Proposal | None:
    """The numbers stay the same; memory grows by the activations kept. Declines where it is
    evaluation that computes too much; applied at run time also where what is computed twice changes
    its buffers, as batch norm does, for these would be changed once in each step."""
    if proof.get_facts(DeviceFacts).gradients:
        return None
    return Proposal(
        summary="call the layers directly instead of through torch.utils.checkpoint "
        "(transformers: activation_checkpointing=False, in older ones "
        "gradient_checkpointing=False)",
        edits=(Edit(knob="model.checkpointing", value=False, was=True),),
        risk="out of memory where sequences or batches grow later: keep a way back; batch norm in "
        "these layers counts each batch once, no longer twice",
    )
