"""Compile the model."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts


@fix(
    "launch-bound-small-kernels", "unfused-memory-bound-ops", "naive-attention", consent="rounding"
)
def compile_model(proof: Proof) -> Proposal | None:
    """Compile the model, so that one launch does the work of many operators. Fused operators
    round differently. Of attention that a script writes out it makes what lies between the products
    one operator, which is less than a fused kernel saves, and needs nobody; declined where a
    library can be told to fuse it."""
    facts = proof.get_facts(DeviceFacts)
    if facts.attention and (facts.libraries != () or facts.compiled is None):
        return None
    return Proposal(
        summary="model = torch.compile(model)",
        edits=(Edit(knob="model.compile", value=True, was=False),),
        predicted=facts.compiled,
        risk="the first steps compile for seconds to minutes; shapes that change compile again; "
        "code that depends on data stays in Python",
    )
