"""Evaluate without recording for a backward pass."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("needless-compute", consent="none")
def evaluate_without_gradients(proof: Proof) -> Proposal | None:
    """The numbers stay the same. Declines where nothing says that it is evaluation. Applied at run
    time, the first evaluation from each line is left as it is, to see that nothing is learned from
    it and that its first calls give the same without gradients; these are not computed twice where
    that could be noticed: with hooks, several ranks, or a model that is compiled, or changes when
    it is called."""
    if not proof.facts.get("gradients"):
        return None
    return Proposal(
        summary="with torch.no_grad(): around evaluation",
        edits=(Edit(knob="evaluation.gradients", value=False, was=True),),
        risk="code that needs gradients while it evaluates fails; where the script says so itself, "
        "nn.TransformerEncoder goes a faster way, which gives zeros where a mask says padding",
    )
