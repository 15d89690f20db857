"""Compile the model."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix(
    "launch-bound-small-kernels",
    "unfused-memory-bound-ops",
    "naive-attention",
    consent="rounding",
)
def compile_model(proof: Proof) -> Proposal | None:
    """Compile the model, so that one launch does the work of many operators. Fused operators
    round differently. Of attention that a script writes out it makes what lies between the products
    one operator, which is less than a fused kernel saves, and needs nobody; declined where a
    library can be told to fuse it."""
    attention = "libraries" in proof.facts
    if attention and (proof.facts["libraries"] != () or "compiled" not in proof.facts):
        return None
    return Proposal(
        summary="model = torch.compile(model)",
        edits=(Edit(knob="model.compile", value=True, was=False),),
        predicted=proof.facts["compiled"] if attention else None,
        risk="the first steps compile for seconds to minutes; shapes that change compile again; "
        "code that depends on data stays in Python",
    )
