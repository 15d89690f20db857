"""Compile the model."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts, HostFacts

FEW = 5
"""launches per step below which there is nothing to join: a compiled step has one or a few"""


@fix(
    "launch-bound-small-kernels", "unfused-memory-bound-ops", "naive-attention", consent="rounding"
)
def compile_model(proof: Proof) -> Proposal | None:
    """Compile the model, so that one kernel launch does the work of many operators. Fused operators
    round differently. In attention that the script writes out, this fuses what lies between the
    matrix products: less than a fused attention kernel saves, but no change of the source. Declines
    where a library has a switch for fused attention, and where a step has few launches already."""
    if 0.0 < proof.get_facts(HostFacts).launches < FEW:
        return None
    facts = proof.get_facts(DeviceFacts)
    if facts.attention and (facts.libraries != () or facts.compiled is None):
        return None
    return Proposal(
        edits=(Edit(knob="model.compile", value=True, was=False),),
        predicted=facts.compiled,
        risk="the first steps compile for seconds to minutes; new shapes compile again; code that "
        "depends on data stays in Python",
    )
