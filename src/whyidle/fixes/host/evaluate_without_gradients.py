"""Evaluate without recording a backward graph."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts, InterruptionFacts


@fix("needless-compute", "heavy-evaluation", consent="none")
def evaluate_without_gradients(proof: Proof) -> Proposal | None:
    """The numbers stay the same. Declines where nothing shows evaluation, or evaluation that
    records a backward graph."""
    without = proof.get_facts(InterruptionFacts).without_graph
    if not proof.get_facts(DeviceFacts).gradients and without is None:
        return None
    return Proposal(
        edits=(Edit(knob="evaluation.gradients", value=False, was=True),),
        predicted=without,
        risk="code that needs gradients during evaluation fails; written into the script, fused "
        "attention layers take a faster path that returns zeros at padded positions",
    )
