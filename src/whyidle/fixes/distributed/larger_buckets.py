"""Exchange gradients in larger buckets."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

DEFAULT_MB = 25
"""the framework's default bucket size"""
SMALL_BYTES = 1 << 20
SHORT_S = 100e-6
"""a shorter call moves little data: NCCL needs 5 to 30 us for an empty one"""
MANY = 50
"""calls per step"""


@fix("exposed-gradient-comm", consent="rounding", kinds=TRAINING)
def larger_buckets(proof: Proof) -> Proposal | None:
    """Exchange many small gradients together, in buckets that start while the backward pass still
    runs. Declines where calls are few or already large."""
    facts = proof.get_facts(DistributedFacts)
    calls, size = facts.calls, facts.mean_bytes
    small = (
        size < SMALL_BYTES
        if size is not None
        else facts.median_s is not None and facts.median_s < SHORT_S
    )
    if calls < MANY or not small:
        return None
    return Proposal(
        summary=f"exchange gradients in buckets instead of {calls:.0f} single all-reduces per "
        "step: {edits}",
        edits=(Edit(knob="ddp.bucket_cap_mb", value=DEFAULT_MB),),
        risk="buckets take the memory of the gradients once more, unless gradients are views of "
        "them; sums are formed in another order",
    )
