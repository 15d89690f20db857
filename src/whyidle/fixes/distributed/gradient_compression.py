"""Exchange gradients in half the bytes."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.proof_facts import DistributedFacts


@fix("exposed-gradient-comm", consent="numerics", kinds=TRAINING)
def gradient_compression(proof: Proof) -> Proposal | None:
    """Cast gradients for the exchange: to bfloat16 on GPUs, to float16 on CPUs, which have no hook
    for bfloat16. Declines where collectives are bound by latency or do not carry gradients."""
    facts = proof.get_facts(DistributedFacts)
    if not facts.is_large or facts.kind_share("all_reduce", "reduce_scatter") < 0.5:
        return None
    limit = "; those beyond 65,504 become infinite" if facts.on_cpu else ""
    return Proposal(
        edits=(Edit(knob="ddp.comm_hook", value=f"{'fp' if facts.on_cpu else 'bf'}16_compress"),),
        predicted=facts.compressed,
        risk=f"gradients lose precision in the exchange{limit}; gains nothing where they have 16 "
        "bits already",
    )
