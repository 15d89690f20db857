"""Store image tensors channels-last."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("wrong-memory-format", consent="rounding")
def channels_last(proof: Proof) -> Proposal | None:
    """Store activations and weights in the layout that the convolutions use, starting with the
    input."""
    rocm = proof.get_facts(DeviceFacts).rocm
    return Proposal(
        summary="{edits}, with PYTORCH_MIOPEN_SUGGEST_NHWC=1 set" if rocm else "",
        edits=(Edit(knob="model.memory_format", value="channels_last", was="contiguous"),),
        risk="operators without such a kernel convert back, which can be slower; 4-D tensors only",
    )
