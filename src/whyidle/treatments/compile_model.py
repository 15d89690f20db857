"""Compile the model."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("launch-bound-small-kernels", "unfused-memory-bound-ops", consent="rounding")
def compile_model(_: Proof) -> Plan:
    """Compile the model, so that one launch does the work of many operators. Fused operators
    round differently."""
    return Plan(
        summary="model = torch.compile(model)",
        edits=(Edit(knob="model.compile", value=True, was=False),),
        risk="the first steps compile for seconds to minutes; shapes that change compile again; "
        "code that depends on data stays in Python",
    )
