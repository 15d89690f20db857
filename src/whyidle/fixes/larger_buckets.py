"""Send gradients in larger buckets."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

DEFAULT_MB = 25
"""DistributedDataParallel's own ``bucket_cap_mb``"""
SMALL_BYTES = 1 << 20
SHORT_S = 100e-6
"""a call this short moves little: NCCL needs 5 to 30 us for an empty one"""
MANY = 50


@fix("exposed-gradient-comm", consent="rounding")
def larger_buckets(proof: Proof) -> Proposal | None:
    """Exchange many small gradients together, in buckets that start while the backward pass still
    runs. Declines where calls are few or large already."""
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
        summary=f"exchange gradients in buckets: DistributedDataParallel(model, bucket_cap_mb="
        f"{DEFAULT_MB}) instead of {calls:.0f} single all-reduces per step",
        edits=(Edit(knob="ddp.bucket_cap_mb", value=DEFAULT_MB),),
        risk="buckets need the memory of the gradients once more, unless "
        "gradient_as_bucket_view=True; sums are formed in another order",
    )
