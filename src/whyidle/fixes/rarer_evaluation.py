"""Evaluate less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts

FACTOR = 10


@fix("heavy-evaluation", consent="convergence")
def rarer_evaluation(proof: Proof) -> Proposal | None:
    """Every tenth evaluation only. Nothing that is learned depends on it, but which checkpoint is
    kept, or when training stops, may: so it is left to people. Declines where the recording does
    not show evaluation to recur."""
    rarer = proof.get_facts(InterruptionFacts).rarer
    if rarer is None:
        return None
    return Proposal(
        summary=f"evaluate every {FACTOR}th time only, or in another process on a checkpoint",
        edits=(Edit(knob="evaluation.interval_factor", value=FACTOR, was=1),),
        predicted=rarer,
        risk="the best checkpoint may be missed, and stopping early comes later",
        automatic=False,
    )
