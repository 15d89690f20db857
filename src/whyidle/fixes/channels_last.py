"""Keep image tensors channels-last."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("wrong-memory-format", consent="rounding")
def channels_last(proof: Proof) -> Proposal | None:
    """Store activations and weights as the convolutions want them, from the input on."""
    extra = " and PYTORCH_MIOPEN_SUGGEST_NHWC=1" if proof.get_facts(DeviceFacts).rocm else ""
    return Proposal(
        summary="model.to(memory_format=torch.channels_last), the input batch as well" + extra,
        edits=(Edit(knob="model.memory_format", value="channels_last", was="contiguous"),),
        risk="operators without such a kernel convert back, which can be slower; 4-D tensors only",
    )
