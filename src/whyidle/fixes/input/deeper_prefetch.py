"""Prefetch more batches."""

from __future__ import annotations

from whyidle.fixes._values import nearby_values
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("bursty-loader-shallow-prefetch", consent="none")
def deeper_prefetch(proof: Proof) -> Proposal | None:
    """A deeper queue bridges slow batches. It holds the number of workers times the prefetch
    factor."""
    facts = proof.get_facts(InputFacts)
    value = facts.prefetch
    among = nearby_values(value, (facts.was or 2) + 1, facts.most_prefetch)
    return Proposal(
        edits=(Edit(knob="loader.prefetch_factor", value=value, among=among),),
        risk="memory and /dev/shm must hold that many batches",
        automatic=True,
    )
