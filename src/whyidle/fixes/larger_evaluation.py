"""Evaluate in larger batches."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts

FACTOR = 4
"""times the batch: what a model computes of each sample takes the same, what it costs to ask it is
paid once"""
ALL = "evaluate more samples at once, if it takes them a few at a time"


@fix("heavy-evaluation", consent="rounding")
def larger_evaluation(proof: Proof) -> Proposal:
    """Larger batches in evaluation change no learning, only rounding. Advice: the batch size is
    that of a loader of the script's; where evaluation takes its batches from no loader, it may
    compute all of its data at once."""
    batches = proof.get_facts(InterruptionFacts).batches
    factor = Edit(knob="evaluation.batch_factor", value=FACTOR, was=1)
    return Proposal(
        summary=f"evaluate with {FACTOR} times the batch" if batches else ALL,
        edits=(factor,) if batches else (),
        risk="more device memory during evaluation",
        automatic=False,
    )
