"""Copy batches from pinned memory without waiting."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import TransferFacts


@fix("pageable-h2d-copy", "blocking-h2d-copy", consent="none")
def pinned_copies(proof: Proof) -> Proposal | None:
    """Let the DataLoader pin its batches (in its own thread) and copy them with
    ``non_blocking=True``. Only copies to the device: one back to the host would be read before it
    has arrived. Pinning in the training loop itself is never proposed: it costs more than it
    wins."""
    low, expected = proof.low, proof.get_facts(TransferFacts).without_overlap
    expected = low if expected is None else expected
    if expected <= 0.0:
        return None
    return Proposal(
        summary="DataLoader(..., pin_memory=True) and batch.to(device, non_blocking=True)",
        edits=(
            Edit(knob="loader.pin_memory", value=True),
            Edit(knob="copy.non_blocking", value=True),
        ),
        predicted=Predicted(
            speedup=1.0 / (1.0 - min(max(expected, low), 0.99)),
            low=1.0 / (1.0 - min(low, 0.99)),
            high=1.0 / (1.0 - min(max(expected, low), 0.99)),
            method="the copies at the rate of pinned memory, without the wait; no overlap",
        ),
        risk="locks host memory of a few batches; batches of own types need a pin_memory method",
    )
