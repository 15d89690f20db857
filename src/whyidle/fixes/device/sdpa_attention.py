"""Use fused attention."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts

WRITTEN_OUT = "replace the written-out product, softmax and product by fused attention"
UNREAD_WEIGHTS = "do not request attention weights that nothing reads"
RISK = "some masks and types, and dropout on a CPU, fall back to the written-out form"


@fix("naive-attention", consent="rounding")
def sdpa_attention(proof: Proof) -> Proposal | None:
    """Use one fused kernel for product, softmax and product. Sums are formed in another order, and
    dropout draws other random numbers. Model libraries have a switch for their
    attention; elsewhere the script writes attention out, or requests attention weights that it may
    need."""
    libraries = proof.get_facts(DeviceFacts).libraries
    if libraries is not None and "models" not in libraries:
        summary = UNREAD_WEIGHTS if libraries else WRITTEN_OUT
        return Proposal(summary=summary, risk=RISK, automatic=False)
    framework_too = libraries is None or "framework" in libraries
    return Proposal(
        summary=f"{UNREAD_WEIGHTS}; {{edits}}" if framework_too else "",
        edits=(Edit(knob="model.attention", value="sdpa", was="eager"),),
        risk=RISK,
    )
