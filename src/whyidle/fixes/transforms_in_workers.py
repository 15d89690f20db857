"""Prepare data in loader workers."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("heavy-cpu-transform", consent="rounding")
def transforms_in_workers(proof: Proof) -> Proposal | None:
    """Move preparation out of the training loop into the Dataset, so that workers do it ahead of
    time. Random numbers of augmentation come in another order. Where workers prepare it already
    there is nothing to move."""
    if proof.facts.get("inside"):
        return None
    function = proof.facts.get("function")
    what = f"the work of {function}" if function else "decoding and transforms"
    return Proposal(
        summary=f"move {what} into Dataset.__getitem__ and load with num_workers >= 2",
        risk="the dataset must be able to run in another process",
        automatic=False,
    )
