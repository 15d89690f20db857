"""Copy batches from pinned memory without blocking."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import TransferFacts


@fix("pageable-h2d-copy", "blocking-h2d-copy", consent="none")
def pinned_copies(proof: Proof) -> Proposal | None:
    """Let the loader pin its batches in its own thread, and copy them without blocking. Only copies
    to the device: the host would read a copy back before it has arrived. Pinning in the training
    loop is never proposed: it costs more than it saves."""
    low, expected = proof.low, proof.get_facts(TransferFacts).without_overlap
    expected = low if expected is None else expected
    if expected <= 0.0:
        return None
    return Proposal(
        edits=(
            Edit(knob="loader.pin_memory", value=True),
            Edit(knob="copy.non_blocking", value=True),
        ),
        predicted=Predicted(
            speedup=1.0 / (1.0 - min(max(expected, low), 0.99)),
            low=1.0 / (1.0 - min(low, 0.99)),
            high=1.0 / (1.0 - min(max(expected, low), 0.99)),
            method="copies at the rate of pinned memory, without the wait or overlap",
        ),
        risk="locks host memory for a few batches; custom batch types need a pin_memory method",
    )
