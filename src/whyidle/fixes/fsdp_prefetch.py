"""Gather sharded parameters of the next modules ahead."""

from __future__ import annotations

from whyidle.fixes._exchange_size import is_gathering
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

AHEAD = 2
"""modules: with one, FSDP gathers no earlier than by default"""


@fix("exposed-gradient-comm", consent="none")
def fsdp_prefetch(proof: Proof) -> Proposal | None:
    """Let FSDP gather the parameters of the next two modules while one computes. Declines where
    gathering is a small part of the exchange, and on CPUs, whose gathers are waited for at once."""
    facts = proof.get_facts(DistributedFacts)
    if facts.on_cpu or not is_gathering(facts):
        return None
    return Proposal(
        edits=(Edit(knob="fsdp.prefetch", value=AHEAD),),
        risk="the parameters of two more modules are in memory",
    )
