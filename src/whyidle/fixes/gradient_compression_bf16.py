"""Exchange gradients in half the bytes."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DistributedFacts

LEAST_BYTES = 1 << 20
LEAST_S = 200e-6
"""collectives that are smaller or shorter are bound by latency, and fewer bytes save nothing"""
GRADIENT = ("all_reduce", "reduce_scatter")


@fix("exposed-gradient-comm", consent="numerics")
def gradient_compression_bf16(proof: Proof) -> Proposal | None:
    """Cast gradients to bfloat16 for the exchange. Declines where collectives are bound by latency
    or do not carry gradients, and on CPUs, which have no such hook."""
    facts = proof.get_facts(DistributedFacts)
    if facts.on_cpu:
        return None
    kinds = facts.kinds
    size = facts.mean_bytes
    large = size >= LEAST_BYTES if size is not None else (facts.median_s or 0.0) >= LEAST_S
    if not large or sum(kinds.get(kind, 0.0) for kind in GRADIENT) < 0.5 * sum(kinds.values()):
        return None
    return Proposal(
        edits=(Edit(knob="ddp.comm_hook", value="bf16_compress"),),
        predicted=facts.compressed,
        risk="gradients lose precision in the exchange; gains nothing where they are bf16 already",
    )
