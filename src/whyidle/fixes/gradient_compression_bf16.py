"""Exchange gradients in half the bytes."""

from __future__ import annotations

from whyidle.fixes._exchange_size import is_bound_by_bytes
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("exposed-gradient-comm", consent="numerics")
def gradient_compression_bf16(proof: Proof) -> Proposal | None:
    """Cast gradients to bfloat16 for the exchange. Declines where collectives are bound by latency
    or do not carry gradients, and on CPUs, which have no such hook."""
    facts = proof.get_facts(DistributedFacts)
    if facts.on_cpu or not is_bound_by_bytes(facts, "all_reduce", "reduce_scatter"):
        return None
    return Proposal(
        edits=(Edit(knob="ddp.comm_hook", value="bf16_compress"),),
        predicted=facts.compressed,
        risk="gradients lose precision in the exchange; gains nothing where they are bf16 already",
    )
