"""Generate one kernel from a chain of operators."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("unfused-memory-bound-ops", consent="rounding")
def fuse_operators(proof: Proof) -> Plan | None:
    """Compile the model, so that chains of memory-bound operators become one kernel each;
    intermediate results are no longer rounded to memory's type."""
    del proof
    return Plan(
        summary="model = torch.compile(model), or fused forms of the operators in the chains",
        edits=(Edit(knob="model.compile", value=True, was=False),),
        risk="compile time at the start and for every new shape; graph breaks keep parts unfused",
    )
