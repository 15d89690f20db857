"""Send 64-bit numbers that fit into 32 bits as such."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.fix import Proposal, fix

WIDENED = 0.9
"""what is left of the bytes saved: the device reads and writes them once more, and its memory is at
least ten times as fast as its link (NVIDIA H100 SXM: 3350 GB/s beside 64 GB/s each way)"""


@fix("oversized-or-fragmented-h2d", consent="none")
def lossless_downcast(proof: Proof) -> Proposal | None:
    """Copy 64-bit numbers to the device in 32 bits, and widen them there. At run time the thread
    that pins batches makes them narrower and compares: those of which a value would not come back
    bit by bit are copied as they are. Without workers and pinned memory nothing is narrowed, as
    the loop itself would have to."""
    saved = float(proof.facts.get("saved", 0.0))
    if saved <= 0.0:
        return None
    return Proposal(
        summary=f"send {proof.facts['type']} as 32 bits where every value fits, and widen it on "
        "the device",
        edits=(
            Edit(knob="loader.pin_memory", value=True),
            Edit(knob="copy.narrow", value=True),
        ),
        predicted=Predicted(
            speedup=1.0 / (1.0 - min(saved * WIDENED, 0.99)),
            low=1.0,
            high=1.0 / (1.0 - min(saved, 0.99)),
            method="half of the bytes x exposed share, if all values fit",
        ),
        risk="pinned memory for half of each batch more, and time of the thread that pins",
    )
