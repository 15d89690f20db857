"""Compute the activations of some modules again."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import MemoryFacts


@fix("memory-capacity-bound", consent="none", kinds=TRAINING)
def recompute_modules(proof: Proof) -> Proposal | None:
    """The modules that free most of the peak for least time compute their forward pass once more
    when the backward pass needs it. The numbers stay the same, dropout included, except that
    batch norm counts each batch twice; the step takes longer, and the memory allows a larger batch.
    Proposed where `--look memory` has measured the modules."""
    names, share = proof.get_facts(MemoryFacts).recompute, proof.get_facts(MemoryFacts).again
    if not names:
        return None
    count = names.count(",") + 1
    what = f"{count} modules" if count > 1 else f"the module {names}"
    return Proposal(
        summary=f"compute the activations of {what} again, for {share:.0%} of a pass, and use the "
        "memory for a larger batch",
        edits=(Edit(knob="model.recompute", value=names),),
        predicted=None,
        risk="alone it makes each step longer",
        faster=False,
    )
