"""Exchange data beside the compute that does not need it."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix

MANY = 50
"""so many calls per step are no buckets"""


@fix("exposed-gradient-comm", consent="none")
def overlap_exchange(proof: Proof) -> Proposal | None:
    """Start exchanges before their results are needed. Declines for the all-reduce of gradients
    where a part of it is hidden already, as DistributedDataParallel does by itself, and where it is
    many small calls, which want larger buckets."""
    kinds = proof.facts.get("kinds", {})
    kind = max(kinds, key=lambda name: kinds[name], default="")
    summary = {
        "all_to_all": "exchange the next batch's embeddings while this one computes (TorchRec: "
        "TrainPipelineSparseDist), and let the dense part run beside the exchange",
        "all_gather": "gather the next layer's weights while this one computes (FSDP: "
        "forward_prefetch=True, backward_prefetch=BACKWARD_PRE, limit_all_gathers=False)",
        "reduce_scatter": "let gradients be scattered beside the backward pass (FSDP: "
        "backward_prefetch=BACKWARD_PRE)",
        "all_reduce": "let DistributedDataParallel average gradients bucket by bucket while the "
        "backward pass still runs (instead of after it by hand, or with a bucket_cap_mb that holds "
        "the whole model)",
    }.get(kind)
    if kind == "all_reduce" and (proof.facts.get("hidden") or proof.facts["calls"] >= MANY):
        return None
    if summary is None:
        return None
    return Proposal(
        summary=summary,
        risk="what is prefetched takes memory; a batch is in flight while the last one trains",
        automatic=False,
    )
