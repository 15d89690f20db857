"""Gather sharded parameters once per step instead of twice."""

from __future__ import annotations

from whyidle.fixes._exchange_size import is_gathering
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("exposed-gradient-comm", consent="none")
def fsdp_keep_gathered(proof: Proof) -> Proposal | None:
    """Keep the parameters that FSDP gathered for the forward pass until the backward pass has used
    them, as ZeRO stage 2 does. Declines where gathering is a small part of the exchange."""
    facts = proof.get_facts(DistributedFacts)
    if not is_gathering(facts):
        return None
    return Proposal(
        edits=(Edit(knob="fsdp.reshard_after_forward", value=False),),
        predicted=facts.gathered_once,
        risk="all parameters are in memory from the forward to the backward pass",
    )
