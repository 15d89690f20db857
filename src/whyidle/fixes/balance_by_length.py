"""Give every rank the same amount of work."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("rank-workload-imbalance", consent="convergence")
def balance_by_length(proof: Proof) -> Proposal | None:
    """Deal samples so that each rank's batch costs the same, or move work off the rank that is
    always late."""
    if proof.facts.get("constant"):
        summary = (
            f"move work off rank {proof.facts.get('rank')}: fewer layers on its pipeline stage, "
            "smaller embedding shards, or an equal share of the batch"
        )
    else:
        summary = (
            "sort each global batch by length and deal it over the ranks in turns (for attention "
            "by the sum of squared lengths), with a sampler that all ranks seed alike"
        )
    return Proposal(
        summary=summary,
        risk="which samples meet in a batch changes; learning may, too",
        automatic=False,
    )
