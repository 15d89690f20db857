"""Send batches in the narrowest type that holds them."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("oversized-or-fragmented-h2d", consent="numerics")
def narrow_batches(proof: Proof) -> Proposal | None:
    """Send what fits into fewer bytes in fewer bytes, and convert on the device. Only the program
    knows whether its values fit, so this is advice."""
    kind = proof.facts.get("type")
    if not kind:
        return None
    narrow = "uint8, normalised on the device" if kind == "float images" else "32 bits"
    return Proposal(
        summary=f"send {kind} as {narrow}",
        risk="values outside the narrower type are destroyed; mind the order of normalising",
        automatic=False,
    )
