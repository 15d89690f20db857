"""Advice on engines that serve a model, in their own terms."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.proof_facts import HostFacts

SCHEDULING = {
    "vLLM": "start vLLM with --async-scheduling",
    "SGLang": "use SGLang's overlap scheduler (no --disable-overlap-schedule; a grammar or a "
    "speculative algorithm may switch it off)",
    "TensorRT-LLM": "use TensorRT-LLM's overlap scheduler (disable_overlap_scheduler: false)",
}
REQUESTS = {
    "vLLM": "--max-num-seqs, and --gpu-memory-utilization for the KV cache that they need",
    "SGLang": "--max-running-requests and --cuda-graph-max-bs, and --mem-fraction-static for the "
    "KV cache that they need",
    "TensorRT-LLM": "max_batch_size, and free_gpu_memory_fraction for the KV cache that they need",
}


def _prepare_ahead(proof: Proof) -> str:
    engine = proof.get_facts(HostFacts).engine
    general = (
        "prepare the next step on the CPU while the GPU runs the present one: launch the next "
        "graph before its results are read, and update its inputs in static buffers on the device"
    )
    return SCHEDULING.get(engine, general)


def _decode_more_requests(proof: Proof) -> str | None:
    facts = proof.get_facts(HostFacts)
    if not facts.decodes:
        return None
    knobs = REQUESTS.get(facts.engine, "room in the KV cache decides how many")
    return f"decode more requests at once ({knobs}): each gap then serves more tokens"


ADVICE = (
    advice(
        *("prepare-next-step", "gaps-between-graphs"),
        title="Prepare the next step during the present one",
        doc="The host schedules and prepares one step ahead of the device. The engine decides "
        "whether it can, so only people switch it on.",
        summary=_prepare_ahead,
        risk="a step ahead computes for requests that have ended; some sampling features need the "
        "results first",
    ),
    advice(
        *("more-concurrent-requests", "gaps-between-graphs"),
        title="Decode more requests at once",
        doc="Decoding reads all weights for every step, so more requests per step are nearly free "
        "until the KV cache is full. Declines where steps do not decode.",
        summary=_decode_more_requests,
        faster=False,
        risk="each request may wait longer for its next token; a full KV cache preempts requests",
    ),
)
