"""Advice on ranks and what they exchange."""

from __future__ import annotations

import shlex

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, advice
from whyidle.model.proof_facts import DistributedFacts

MANY = 50
"""calls per step from which they cannot be buckets"""
DEFAULT_MB = 25
"""the framework's default bucket size"""
SMALL_BYTES = 1 << 20
SHORT_S = 100e-6
"""a shorter call moves little data: NCCL needs 5 to 30 us for an empty one"""
GATHERED = 0.3
"""least share of gathering in the cost of collectives: with as many bytes in each, two gathers and
one reduce-scatter are two thirds"""
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
    if facts.constant and set(facts.kinds) == {"all_reduce"}:  # every rank has the whole model
        return (
            f"give rank {facts.rank} batches that cost as much as the others': as many samples, "
            "and of about the same total length"
        )
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


def _search_not(proof: Proof) -> str | None:
    facts = proof.get_facts(DistributedFacts)
    return None if not facts.walks or facts.same_unused else ""


def _search_once(proof: Proof) -> str | None:
    facts = proof.get_facts(DistributedFacts)
    if not facts.walks or facts.all_used:
        return None
    return "" if facts.same_unused else "if the same parameters are unused in every step: {edits}"


def _kind_share(proof: Proof, *kinds: str) -> float:
    return proof.get_facts(DistributedFacts).kind_share(*kinds)


def _compress_gradients(proof: Proof) -> Proposal | None:
    facts = proof.get_facts(DistributedFacts)
    if not facts.is_large or _kind_share(proof, "all_reduce", "reduce_scatter") < 0.5:
        return None
    limit = "; those beyond 65,504 become infinite" if facts.on_cpu else ""
    return Proposal(
        edits=(Edit(knob="ddp.comm_hook", value=f"{'fp' if facts.on_cpu else 'bf'}16_compress"),),
        predicted=facts.compressed,
        risk=f"gradients lose precision in the exchange{limit}; gains nothing where they have 16 "
        "bits already",
    )


def _join_calls(proof: Proof) -> str | None:
    facts = proof.get_facts(DistributedFacts)
    calls, size = facts.calls, facts.mean_bytes
    short = facts.median_s is not None and facts.median_s < SHORT_S
    if calls < MANY or not (size < SMALL_BYTES if size is not None else short):
        return None
    return (
        f"exchange gradients in buckets instead of {calls:.0f} single all-reduces per step: "
        "{edits}"
    )


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
    advice(
        *("ddp-bucket-view", "ddp-config-overhead"),
        kinds=TRAINING,
        title="Store gradients inside the exchange buckets",
        doc="Make gradients views of the buckets in which they are exchanged, so that none is "
        "copied out after the exchange. Declines where nothing is copied.",
        summary=lambda proof: "" if proof.get_facts(DistributedFacts).copies else None,
        edits=(Edit(knob="ddp.gradient_as_bucket_view", value=True, was=False),),
        predicted=lambda proof: proof.get_facts(DistributedFacts).predicted_copies,
        risk="gradients become views: code that detaches or replaces them in place breaks",
    ),
    advice(
        *("ddp-find-unused-off", "ddp-config-overhead"),
        kinds=TRAINING,
        title="Skip the search for unused parameters",
        doc="Turn off the search for unused parameters. If a parameter goes unused later, the "
        "framework ends the job with an error that names the option. More than two ranks add in "
        "another order, because the buckets are rebuilt after the first step.",
        summary=_search_not,
        edits=(Edit(knob="ddp.find_unused_parameters", value=False, was=True),),
        predicted=lambda proof: proof.get_facts(DistributedFacts).predicted_walks,
        consent="rounding",
        risk="the framework raises an error in the step after a parameter got no gradient",
    ),
    advice(
        *("ddp-static-graph", "ddp-config-overhead"),
        kinds=TRAINING,
        title="Search for unused parameters once instead of in every step",
        doc="Search for unused parameters in the first step only. Declines where all are used, "
        "which needs no search, or where their use varies. If it does later, the framework ends "
        "the job with an error, or learns from gradients that were not exchanged.",
        summary=_search_once,
        edits=(Edit(knob="ddp.static_graph", value=True, was=False),),
        predicted=lambda proof: proof.get_facts(DistributedFacts).predicted_walks,
        consent="rounding",
        risk="fails if the used parameters change from step to step",
    ),
    advice(
        *("fsdp-keep-gathered", "exposed-gradient-comm"),
        kinds=TRAINING,
        title="Gather sharded parameters once per step instead of twice",
        doc="Keep the parameters that FSDP gathered for the forward pass until the backward pass "
        "has used them, as ZeRO stage 2 does. Declines where gathering is a small part of the "
        "exchange.",
        summary=lambda proof: "" if _kind_share(proof, "all_gather") >= GATHERED else None,
        edits=(Edit(knob="fsdp.reshard_after_forward", value=False),),
        predicted=lambda proof: proof.get_facts(DistributedFacts).gathered_once,
        risk="all parameters are in memory from the forward to the backward pass",
    ),
    advice(
        *("gradient-compression", "exposed-gradient-comm"),
        kinds=TRAINING,
        title="Exchange gradients in half the bytes",
        doc="Cast gradients for the exchange: to bfloat16 on GPUs, to float16 on CPUs, which have "
        "no hook for bfloat16. Declines where collectives are bound by latency or do not carry "
        "gradients.",
        summary=_compress_gradients,
        consent="numerics",
    ),
    advice(
        *("larger-buckets", "exposed-gradient-comm"),
        kinds=TRAINING,
        title="Exchange gradients in larger buckets",
        doc="Exchange many small gradients together, in buckets that start while the backward pass "
        "still runs. Declines where calls are few or already large.",
        summary=_join_calls,
        edits=(Edit(knob="ddp.bucket_cap_mb", value=DEFAULT_MB),),
        consent="rounding",
        risk="buckets take the memory of the gradients once more, unless gradients are views of "
        "them; sums are formed in another order",
    ),
)
