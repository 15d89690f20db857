"""Send batches in the narrowest type that holds them."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment


@treatment("oversized-or-fragmented-h2d", consent="numerics")
def narrow_batches(proof: Proof) -> Plan | None:
    """Send what fits into fewer bytes in fewer bytes, and convert on the device. Only the program
    knows whether its values fit, so this is advice."""
    kind = proof.facts.get("type")
    if not kind:
        return None
    narrow = "uint8, normalised on the device" if kind == "float images" else "32 bits"
    return Plan(
        summary=f"send {kind} as {narrow}",
        risk="values outside the narrower type are destroyed; mind the order of normalising",
        automatic=False,
    )
