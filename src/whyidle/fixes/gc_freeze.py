"""Freeze the heap after warm-up."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts

LITTLE = 0.05
"""share of the collections left by making them rarer that is not worth another fix: of a pause of a
third of the step, which is a long one, it is less than the 2 % that a fix is kept for"""


@fix("python-gc-pauses", consent="none")
def gc_freeze(proof: Proof) -> Proposal | None:
    """Take everything that lives after warm-up out of the collector's sight, and collect young
    objects at the same step on all ranks. Where the program asks for its collections it goes on
    doing so, and finds only what is new; not where next to nothing is left of them once they are
    made rarer, which can be written into its source."""
    facts = proof.get_facts(InterruptionFacts)
    if facts.explicit:
        if facts.left_over <= LITTLE:
            return None
        return Proposal(
            summary="after warm-up: gc.collect(); gc.freeze()",
            edits=(Edit(knob="gc.freeze", value=True, was=False),),
            risk="cycles among what lived after warm-up are kept until the program ends",
        )
    return Proposal(
        summary="after warm-up: gc.collect(); gc.freeze(); then collect every 50 steps only",
        edits=(
            Edit(knob="gc.freeze", value=True, was=False),
            Edit(knob="gc.collect_interval_steps", value=50),
        ),
        risk="memory grows if the program makes cycles that only a full collection frees",
    )
