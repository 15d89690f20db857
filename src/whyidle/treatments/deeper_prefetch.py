"""Let more finished batches wait."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("bursty-loader-shallow-prefetch", consent="none")
def deeper_prefetch(proof: Proof) -> Plan | None:
    """A deeper queue bridges slow batches. It holds workers times prefetch_factor batches."""
    return Plan(
        summary=f"DataLoader(..., prefetch_factor={proof.facts.get('prefetch', 8)})",
        edits=(Edit(knob="loader.prefetch_factor", value=proof.facts.get("prefetch", 8)),),
        risk="memory and /dev/shm hold that many batches",
        automatic=True,
    )
