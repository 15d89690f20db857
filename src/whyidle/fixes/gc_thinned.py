"""Collect garbage less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("python-gc-pauses", consent="none")
def gc_thinned(proof: Proof) -> Proposal | None:
    """Let the program's own ``gc.collect()`` through only every now and then, where it comes more
    often than that."""
    facts = proof.get_facts(InterruptionFacts)
    often = facts.thinned
    if not facts.explicit or often is None:
        return None
    return Proposal(
        summary="remove gc.collect() from the training loop, or call it every 100 steps",
        edits=(Edit(knob="gc.collect_interval_steps", value=100, was=1),),
        predicted=often,
        risk="peak memory may rise where the call freed large cycles; watch it",
    )
