"""Freeze the heap after warm-up."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts

LITTLE = 0.05
"""share of the collections left by thinning them, below which freezing is not worth a second fix:
even of pauses of a third of the step it is less than the 2 % that a trial requires"""


@fix("python-gc-pauses", consent="none")
def gc_freeze(proof: Proof) -> Proposal | None:
    """Exclude all objects that live after warm-up from collections, and collect young objects at
    the same step on all ranks. Where the program calls the collector itself, its calls stay and
    look only at new objects; declines where thinning the calls leaves next to nothing."""
    facts = proof.get_facts(InterruptionFacts)
    if facts.explicit:
        if facts.left_over <= LITTLE:
            return None
        return Proposal(
            summary="after warm-up: gc.collect(); gc.freeze()",
            edits=(Edit(knob="gc.freeze", value=True, was=False),),
            risk="cycles among objects that lived after warm-up stay until the program ends",
        )
    return Proposal(
        summary="after warm-up: gc.collect(); gc.freeze(); then collect every 50 steps only",
        edits=(
            Edit(knob="gc.freeze", value=True, was=False),
            Edit(knob="gc.collect_interval_steps", value=50),
        ),
        risk="memory grows if the program makes cycles that only a full collection frees",
    )
