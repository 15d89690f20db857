"""Compute in 16 bits where it is safe."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix("no-mixed-precision", consent="numerics")
def autocast(proof: Proof) -> Proposal | None:
    """Run forward pass and loss under ``torch.autocast``. Matrix work gets fewer mantissa bits;
    float16 also needs a gradient scaler against underflow."""
    dtype = proof.get_facts(DeviceFacts).dtype
    scaler = "" if dtype == "bfloat16" else ", with torch.amp.GradScaler around the backward pass"
    return Proposal(
        summary=f'with torch.autocast("cuda", dtype=torch.{dtype}) around forward and loss{scaler}',
        edits=(
            Edit(knob="autocast.dtype", value=dtype),
            Edit(knob="autocast.grad_scaler", value=dtype == "float16", was=False),
        ),
        risk="losses, normalisations and custom kernels may need FP32; compare the loss curve",
    )
