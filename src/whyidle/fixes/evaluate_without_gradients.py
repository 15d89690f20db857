"""Evaluate without recording for a backward pass."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts, InterruptionFacts


@fix("needless-compute", "heavy-evaluation", consent="none")
def evaluate_without_gradients(proof: Proof) -> Proposal | None:
    """The numbers stay the same. Declines where nothing says that it is evaluation, or that it
    records what gradients need. Applied at run time, the first calls from each line are left as
    they are, to see that nothing is learned from them."""
    without = proof.get_facts(InterruptionFacts).without_graph
    if not proof.get_facts(DeviceFacts).gradients and without is None:
        return None
    return Proposal(
        summary="with torch.no_grad(): around evaluation",
        edits=(Edit(knob="evaluation.gradients", value=False, was=True),),
        predicted=without,
        risk="code that needs gradients while it evaluates fails; where the script says so itself, "
        "nn.TransformerEncoder goes a faster way, which gives zeros where a mask says padding",
    )
