"""Read less back from the device."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("large-d2h-copy", consent="none")
def read_back_less(proof: Proof) -> Proposal:
    """Reduce on the device, or copy behind the program's back. Advice: only the author knows what
    is needed on the host."""
    place = proof.where[0] if proof.where else None
    where = f" at {place.file}:{place.line}" if place and place.file else ""
    return Proposal(
        summary=f"reduce on the device before reading{where} (argmax, sums, metrics), read every "
        "10th step, or copy into pinned memory with non_blocking=True and read it a step later",
        risk="a non_blocking copy to the host holds garbage until its event has passed",
        automatic=False,
    )
