"""Store gradients inside the exchange buckets."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("ddp-config-overhead", consent="none", kinds=TRAINING)
def ddp_bucket_view(proof: Proof) -> Proposal | None:
    """Make gradients views of the buckets in which they are exchanged, so that none is copied out
    after the exchange. Declines where nothing is copied."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.copies:
        return None
    return Proposal(
        edits=(Edit(knob="ddp.gradient_as_bucket_view", value=True, was=False),),
        predicted=facts.predicted_copies,
        risk="gradients become views: code that detaches or replaces them in place breaks",
    )
