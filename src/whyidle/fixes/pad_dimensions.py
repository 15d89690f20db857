"""Pad matrix dimensions to what tensor cores load at once."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("misaligned-tensor-shapes", consent="numerics")
def pad_dimensions(proof: Proof) -> Proposal | None:
    """Vocabulary, hidden sizes and batch as multiples of 8 (64 on A100 and later). The added rows
    must be masked, and checkpoints change their shape."""
    del proof
    return Proposal(
        summary="pad the odd dimensions to multiples of 8, better 64 "
        "(model.resize_token_embeddings(..., pad_to_multiple_of=64) for a vocabulary)",
        risk="extra rows must not take part in the loss; old checkpoints need converting",
        automatic=False,
    )
