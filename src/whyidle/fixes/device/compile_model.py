"""Compile the model."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts

FEW = 5
"""launches per step below which there is nothing to join: a compiled step has one or a few"""


@fix("launch-bound-small-kernels", "unfused-memory-bound-ops", consent="rounding")
def compile_model(proof: Proof) -> Proposal | None:
    """Compile the model, so that one kernel launch does the work of many operators. Fused operators
    round differently. Declines where a step has few launches already."""
    if 0.0 < proof.get_facts(HostFacts).launches < FEW:
        return None
    return Proposal(
        edits=(Edit(knob="model.compile", value=True, was=False),),
        risk="the first steps compile for seconds to minutes; new shapes compile again; code that "
        "depends on data stays in Python",
    )
