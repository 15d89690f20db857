"""Send one tensor instead of many small ones."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("oversized-or-fragmented-h2d", consent="none")
def packed_copies(proof: Proof) -> Proposal | None:
    """Collate a batch into few contiguous tensors and send them at once; make constants, masks and
    noise on the device."""
    if not proof.facts.get("fragmented"):
        return None
    return Proposal(
        summary="collate small tensors into one, send it once, and split it on the device; create "
        "constants and random numbers with device=...",
        risk="views into one buffer share its lifetime",
        automatic=False,
    )
