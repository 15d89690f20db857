"""Fused attention."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("naive-attention", consent="rounding")
def sdpa_attention(proof: Proof) -> Plan | None:
    """One fused kernel for product, softmax and product; sums are taken in another order, and
    dropout draws other random numbers."""
    del proof
    return Plan(
        summary="F.scaled_dot_product_attention(q, k, v); with transformers "
        'from_pretrained(..., attn_implementation="sdpa")',
        edits=(Edit(knob="model.attention", value="sdpa", was="eager"),),
        risk="attention weights cannot be returned; some masks and types fall back to the written-"
        "out form",
    )
