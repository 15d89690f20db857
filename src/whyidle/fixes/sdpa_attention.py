"""Fused attention."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts

FUSED = "F.scaled_dot_product_attention(q, k, v)"
PYTORCH = "nn.MultiheadAttention called with need_weights=False where nobody looks at them"
TRANSFORMERS = 'from_pretrained(..., attn_implementation="sdpa")'
RISK = "some masks and types, on a CPU dropout as well, fall back to the written-out form"


@fix("naive-attention", consent="rounding")
def sdpa_attention(proof: Proof) -> Proposal | None:
    """One fused kernel for product, softmax and product; sums are taken in another order, and
    dropout draws other random numbers. Models of transformers have a switch, which is set; advice
    where the script writes attention out, or calls ``nn.MultiheadAttention`` for weights that it
    may need."""
    libraries = proof.get_facts(DeviceFacts).libraries
    if libraries is not None and "models" not in libraries:
        summary = PYTORCH if libraries else f"{FUSED} instead of product, softmax and product"
        return Proposal(summary=summary, risk=RISK, automatic=False)
    also = (PYTORCH,) if libraries is None or "framework" in libraries else ()
    return Proposal(
        summary="; ".join((*also, TRANSFORMERS)),
        edits=(Edit(knob="model.attention", value="sdpa", was="eager"),),
        risk=RISK,
    )
