"""Fused attention."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment

OWN = "the script"
SWITCHES = {
    OWN: "F.scaled_dot_product_attention(q, k, v) instead of product, softmax and product",
    "torch": "nn.MultiheadAttention called with need_weights=False where nobody looks at them",
    "transformers": 'from_pretrained(..., attn_implementation="sdpa")',
}
RISK = "some masks and types, on a CPU dropout as well, fall back to the written-out form"


@treatment("naive-attention", consent="rounding")
def sdpa_attention(proof: Proof) -> Plan | None:
    """One fused kernel for product, softmax and product; sums are taken in another order, and
    dropout draws other random numbers. Where the script itself writes it out, its functions run as
    if they called that kernel, if their text shows that nobody else looks at the weights; for a
    file that is the work of people."""
    libraries = proof.facts.get("libraries")
    own = libraries is not None and not libraries
    known = (OWN,) if own else libraries or tuple(SWITCHES)
    return Plan(
        summary="; ".join(switch for name, switch in SWITCHES.items() if name in known),
        edits=(Edit(knob="model.attention", value="sdpa", was="eager"),),
        risk=RISK,
    )
