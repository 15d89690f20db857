"""Use mixed precision."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("no-mixed-precision", consent="numerics")
def autocast(proof: Proof) -> Proposal | None:
    """Run forward pass and loss in mixed precision. Matrix products get fewer mantissa bits;
    float16 also needs a gradient scaler against underflow."""
    dtype = proof.get_facts(DeviceFacts).dtype
    scaler = "" if dtype == "bfloat16" else ", and scale the loss for the backward pass"
    return Proposal(
        summary=f"compute forward pass and loss in {dtype} mixed precision{scaler}",
        edits=(
            Edit(knob="autocast.dtype", value=dtype),
            Edit(knob="autocast.grad_scaler", value=dtype == "float16", was=False),
        ),
        risk="losses, normalisations and custom kernels may need FP32; compare the loss curves",
    )
