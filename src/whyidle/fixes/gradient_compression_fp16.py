"""Exchange the gradients of ranks on CPUs in half the bytes."""

from __future__ import annotations

from whyidle.fixes._exchange_size import is_bound_by_bytes
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("exposed-gradient-comm", consent="numerics")
def gradient_compression_fp16(proof: Proof) -> Proposal | None:
    """Cast gradients to float16 for the exchange, where ranks compute on CPUs and bfloat16 cannot
    be exchanged. Declines where collectives are bound by latency or do not carry gradients."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.on_cpu or not is_bound_by_bytes(facts, "all_reduce"):
        return None
    return Proposal(
        edits=(Edit(knob="ddp.comm_hook", value="fp16_compress"),),
        predicted=facts.compressed,
        risk="gradients lose precision in the exchange, and those beyond 65,504 become infinite; "
        "casting takes time of the host",
    )
