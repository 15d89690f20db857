"""Collect garbage less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("python-gc-pauses", consent="none")
def gc_thinned(proof: Proof) -> Proposal | None:
    """Skip most of the program's own ``gc.collect()`` calls. Declines where they are rare
    already."""
    facts = proof.get_facts(InterruptionFacts)
    if not facts.explicit or facts.thinned is None:
        return None
    return Proposal(
        summary="remove gc.collect() from the training loop, or call it every 100 steps",
        edits=(Edit(knob="gc.collect_interval_steps", value=100, was=1),),
        predicted=facts.thinned,
        risk="peak memory may rise where the call freed large cycles",
    )
