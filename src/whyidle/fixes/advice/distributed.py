"""Advice on ranks and what they exchange."""

from __future__ import annotations

import shlex

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.proof_facts import DistributedFacts

MANY = 50
"""so many calls per step are no buckets"""
OVERLAPPED = {
    "all_to_all": "exchange the next batch's embeddings while this one computes (TorchRec: "
    "TrainPipelineSparseDist), and let the dense part run beside the exchange",
    "all_gather": "gather the next layer's weights while this one computes (FSDP: "
    "forward_prefetch=True, backward_prefetch=BACKWARD_PRE, limit_all_gathers=False)",
    "reduce_scatter": "let gradients be scattered beside the backward pass (FSDP: "
    "backward_prefetch=BACKWARD_PRE)",
    "all_reduce": "let DistributedDataParallel average gradients bucket by bucket while the "
    "backward pass still runs (instead of after it by hand, or with a bucket_cap_mb that holds "
    "the whole model)",
}
"""kind of collective -> how it runs beside the compute"""


def _balanced(proof: Proof) -> str:
    facts = proof.get_facts(DistributedFacts)
    if facts.constant:
        return (
            f"move work off rank {facts.rank}: fewer layers on its pipeline stage, "
            "smaller embedding shards, or an equal share of the batch"
        )
    return (
        "sort each global batch by length and deal it over the ranks in turns (for attention by "
        "the sum of squared lengths), with a sampler that all ranks seed alike"
    )


def _late_rank(proof: Proof) -> str:
    facts = proof.get_facts(DistributedFacts)
    if facts.constant:
        source = shlex.quote(facts.source)
        return f"fix what holds that rank up; to see it: whyidle explain {source}"
    return (
        "make rare work happen on all ranks in the same step: gc.disable() with a gc.collect() "
        "every few hundred steps, logging and checkpoints at common steps"
    )


def _ddp(proof: Proof) -> str:
    devices = proof.get_facts(DistributedFacts).devices
    return (
        f"start with `torchrun --nproc-per-node={devices} train.py`, "
        "wrap the model in DistributedDataParallel, sample with DistributedSampler, save and log "
        "on rank 0"
    )


def _overlapped(proof: Proof) -> str | None:
    facts = proof.get_facts(DistributedFacts)
    if facts.kind == "all_reduce" and (facts.hidden or facts.calls >= MANY):
        return None
    return OVERLAPPED.get(facts.kind)


def _transport(proof: Proof) -> str:
    if proof.get_facts(DistributedFacts).backend == "gloo":
        return 'torch.distributed.init_process_group("nccl") for GPU tensors'
    return (
        "run once with NCCL_DEBUG=INFO and look for NET/Socket or disabled P2P; unset "
        "NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, start containers with --ipc=host"
    )


ADVICE = (
    advice(
        *("balance-by-length", "rank-workload-imbalance"),
        title="Give every rank the same amount of work",
        doc="Deal samples so that each rank's batch costs the same, or move work off the rank that "
        "is always late.",
        summary=_balanced,
        consent="convergence",
        risk="which samples meet in a batch changes; learning may, too",
    ),
    advice(
        *("ddp-instead-of-dataparallel", "dataparallel-instead-of-ddp"),
        title="One process per GPU",
        doc="Replace DataParallel by DistributedDataParallel. Needs changes that only a person can "
        "make: sampler, logging and saving per rank.",
        summary=_ddp,
        consent="rounding",
        risk="batch normalisation sees each GPU's share of the batch, as before; seeds and the "
        "order of samples change",
    ),
    advice(
        *("explain-late-rank", "late-rank"),
        title="Fix what holds up the late rank",
        doc="Look at the late rank by itself, or at what all ranks do at different times.",
        summary=_late_rank,
    ),
    advice(
        *("overlap-exchange", "exposed-gradient-comm"),
        title="Exchange data beside the compute that does not need it",
        doc="Start exchanges before their results are needed. Declines for the all-reduce of "
        "gradients where a part of it is hidden already, as DistributedDataParallel does by "
        "itself, and where it is many small calls, which want larger buckets.",
        summary=_overlapped,
        risk="what is prefetched takes memory; a batch is in flight while the last one trains",
    ),
    advice(
        *("repair-transport", "nccl-transport-fallback"),
        title="Give collectives their fast path",
        doc="Use NCCL for GPU tensors, over the link that the hardware has.",
        summary=_transport,
        risk="a path that is forced but broken hangs: try it on a small job first",
    ),
)
