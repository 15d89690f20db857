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
    edits = [Edit(knob="autocast.dtype", value=dtype)]
    scaler = ""
    if dtype == "float16":
        edits.append(Edit(knob="autocast.grad_scaler", value=True, was=False))
        scaler = ", and scale the loss for the backward pass"
    return Proposal(
        summary=f"compute forward pass and loss in {dtype} mixed precision{scaler}",
        edits=tuple(edits),
        risk="losses, normalisations and custom kernels may need FP32; compare the loss curves",
    )
