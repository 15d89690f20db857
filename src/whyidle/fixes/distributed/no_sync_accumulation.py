"""Exchange gradients once per optimizer step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("allreduce-every-microstep", consent="rounding", kinds=TRAINING)
def no_sync_accumulation(proof: Proof) -> Proposal | None:
    """Run all but the last micro-batch of a step without the exchange. Gradients are the same sums
    in another order."""
    count = proof.get_facts(DistributedFacts).micro_batches
    return Proposal(
        summary=f"run the first {count - 1} of {count} micro-batches without the exchange",
        edits=(Edit(knob="ddp.no_sync", value=count),),
        risk="the last micro-batch must be exchanged: with a wrong count the ranks drift apart; "
        "with FSDP, gradients stay unsharded meanwhile, which takes memory",
    )
