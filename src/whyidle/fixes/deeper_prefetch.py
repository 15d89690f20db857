"""Let more finished batches wait."""

from __future__ import annotations

from whyidle.fixes._values import around
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix


@fix("bursty-loader-shallow-prefetch", consent="none")
def deeper_prefetch(proof: Proof) -> Proposal | None:
    """A deeper queue bridges slow batches. It holds workers times prefetch_factor batches."""
    value = int(proof.facts.get("prefetch", 8))
    among = around(value, int(proof.facts.get("was", 2)) + 1, proof.facts.get("most_prefetch"))
    return Proposal(
        summary=f"DataLoader(..., prefetch_factor={value})",
        edits=(Edit(knob="loader.prefetch_factor", value=value, among=among),),
        risk="memory and /dev/shm hold that many batches",
        automatic=True,
    )
