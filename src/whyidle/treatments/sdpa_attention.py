"""Fused attention."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment

FUSED = "F.scaled_dot_product_attention(q, k, v)"
SWITCHES = {
    "framework": "nn.MultiheadAttention called with need_weights=False where nobody looks at them",
    "models": 'from_pretrained(..., attn_implementation="sdpa")',
}
RISK = "some masks and types, on a CPU dropout as well, fall back to the written-out form"


@treatment("naive-attention", consent="rounding")
def sdpa_attention(proof: Proof) -> Plan | None:
    """One fused kernel for product, softmax and product; sums are taken in another order, and
    dropout draws other random numbers. Left to people where the script itself writes it out."""
    libraries = proof.facts.get("libraries")
    if libraries is not None and not libraries:  # the script's own code
        return Plan(summary=f"{FUSED} instead of product, softmax and product", risk=RISK)
    known = libraries or tuple(SWITCHES)
    return Plan(
        summary="; ".join(switch for name, switch in SWITCHES.items() if name in known),
        edits=(Edit(knob="model.attention", value="sdpa", was="eager"),),
        risk=RISK,
    )
