"""Gather sharded parameters once per step instead of twice."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

LEAST = 0.3
"""least share of gathering in the cost of collectives: with as many bytes in each, two gathers and
one reduce-scatter are two thirds"""


@fix("exposed-gradient-comm", consent="none", kinds=TRAINING)
def fsdp_keep_gathered(proof: Proof) -> Proposal | None:
    """Keep the parameters that FSDP gathered for the forward pass until the backward pass has used
    them, as ZeRO stage 2 does. Declines where gathering is a small part of the exchange."""
    facts = proof.get_facts(DistributedFacts)
    if facts.kind_share("all_gather") < LEAST:
        return None
    return Proposal(
        edits=(Edit(knob="fsdp.reshard_after_forward", value=False),),
        predicted=facts.gathered_once,
        risk="all parameters are in memory from the forward to the backward pass",
    )
