"""Advice on ranks and what they exchange."""

from __future__ import annotations

import shlex

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, advice
from whyidle.model.proof_facts import DistributedFacts

MANY = 50
"""calls per step from which they cannot be buckets"""
OVERLAPPED = {
    "all_to_all": "exchange the next batch's embeddings during the current step, and run the dense "
    "part of the model during the exchange",
    "dispatch": "send tokens to their experts while another micro-batch computes (two-batch "
    "overlap, DualPipe), and balance the experts",
    "combine": "return tokens from their experts while another micro-batch computes (two-batch "
    "overlap, DualPipe), and balance the experts",
    "send_recv": "give pipeline stages more micro-batches, or compute another micro-batch while "
    "the experts' tokens travel",
    "all_gather": "gather the next layer's weights while the current layer computes",
    "reduce_scatter": "scatter gradients during the backward pass",
    "all_reduce": "average gradients bucket by bucket during the backward pass, not after it, and "
    "not in one bucket that holds the whole model",
}
"""kind of collective -> how to overlap it with compute"""
SHARDED = ("all_gather", "reduce_scatter")
EXPERTS = ("dispatch", "combine")
"""exchanges of tokens with the ranks of their experts"""


def _balance_work(proof: Proof) -> str:
    facts = proof.get_facts(DistributedFacts)
    if facts.constant:
        return (
            f"move work away from rank {facts.rank}: fewer layers on its pipeline stage, "
            "smaller embedding shards, or an equal share of the batch"
        )
    return (
        "sort each global batch by length and deal it to the ranks in turn (for attention by the "
        "sum of squared lengths), with a sampler that has the same seed on all ranks"
    )


def _unblock_rank(proof: Proof) -> str:
    facts = proof.get_facts(DistributedFacts)
    if facts.constant:
        source = shlex.quote(facts.source)
        return f"fix what holds up that rank; diagnose it with: whyidle explain {source}"
    return (
        "do rare work in the same step on all ranks: gc.disable() and a gc.collect() every few "
        "hundred steps, logging and checkpoints at common steps"
    )


def _process_per_gpu(proof: Proof) -> str:
    devices = proof.get_facts(DistributedFacts).devices
    return (
        f"start {devices} processes, one per GPU, that exchange gradients; give each its own part "
        "of the samples; save and log on rank 0"
    )


def _overlap_exchange(proof: Proof) -> str | None:
    facts = proof.get_facts(DistributedFacts)
    if facts.kind in EXPERTS or (
        facts.kind == "all_reduce" and (facts.hidden or facts.calls >= MANY)
    ):
        return None
    text = OVERLAPPED.get(facts.kind)
    if text and facts.nodes > 1 and facts.kind in SHARDED:
        text += (
            "; shard within a node and replicate between nodes (a mesh of two dimensions for "
            "fully_shard, HYBRID_SHARD for FullyShardedDataParallel)"
        )
    return text


def _overlap_experts(proof: Proof) -> str | None:
    kind = proof.get_facts(DistributedFacts).kind
    return OVERLAPPED[kind] if kind in EXPERTS else None


def _repair_transport(proof: Proof) -> str:
    if proof.get_facts(DistributedFacts).backend == "gloo":
        return "use the NCCL backend for GPU tensors"
    return (
        "run once with NCCL_DEBUG=INFO, keep the output, and run whyidle explain OUTPUT; unset "
        "NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, and start containers with --ipc=host"
    )


def _accumulate(proof: Proof) -> str | None:
    facts = proof.get_facts(DistributedFacts)
    text = (
        "accumulate the gradients of 2 batches before the exchange, or use batches twice as large"
    )
    return text if facts.on_cpu and facts.kind == "all_reduce" else None


ADVICE = (
    advice(
        *("balance-by-length", "rank-workload-imbalance"),
        title="Give every rank the same amount of work",
        doc="Deal samples so that each rank's batch costs the same, or move work away from the "
        "rank that is always late.",
        summary=_balance_work,
        consent="convergence",
        risk="which samples share a batch changes; this may affect learning",
    ),
    advice(
        *("ddp-instead-of-dataparallel", "dataparallel-instead-of-ddp"),
        kinds=TRAINING,
        title="One process per GPU",
        doc="Replace one process for all GPUs by one process per GPU. This changes sampler, "
        "logging and saving in the source.",
        summary=_process_per_gpu,
        consent="rounding",
        risk="batch normalisation sees each GPU's share of the batch, as before; seeds and the "
        "order of samples change",
    ),
    advice(
        *("explain-late-rank", "late-rank"),
        title="Fix what holds up the late rank",
        doc="Diagnose the late rank by itself, or align rare work that ranks do at different "
        "times.",
        summary=_unblock_rank,
    ),
    advice(
        *("overlap-exchange", "exposed-gradient-comm"),
        kinds=TRAINING,
        title="Overlap exchanges with compute",
        doc="Start exchanges before their results are needed. Declines for the all-reduce of "
        "gradients where part of it is hidden already, and where it consists of many small calls, "
        "which need larger buckets.",
        summary=_overlap_exchange,
        risk="prefetched data takes memory",
    ),
    advice(
        *("overlap-experts", "exposed-gradient-comm"),
        title="Overlap the exchange of tokens with compute",
        doc="Dispatch and combine the tokens of one micro-batch while another computes.",
        summary=_overlap_experts,
        risk="two micro-batches take more memory, and smaller ones use the device less well",
    ),
    advice(
        *("repair-transport", "nccl-transport-fallback"),
        title="Use the fast path for collectives",
        doc="Use NCCL for GPU tensors, over the fastest link of the hardware.",
        summary=_repair_transport,
        risk="a forced path that is broken hangs: try it on a small job first",
    ),
    advice(
        *("fewer-exchanges", "exposed-gradient-comm"),
        kinds=TRAINING,
        title="Exchange gradients less often",
        doc="Accumulate the gradients of two batches before exchanging them: half of the "
        "exchanges, and steps twice as large. For ranks that compute on CPUs, where gradient "
        "compression is not available.",
        summary=_accumulate,
        predicted=lambda proof: proof.get_facts(DistributedFacts).fewer,
        edits=(Edit(knob="ddp.no_sync", value=2),),
        consent="convergence",
        risk="steps become larger and fewer: the learning rate may need a change",
    ),
)
