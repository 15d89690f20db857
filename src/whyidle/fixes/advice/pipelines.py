"""Advice on pipelines of tf.data."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.number_text import format_bytes
from whyidle.model.proof_facts import InputFacts

_WHOLE = {
    "rows": "make whole batches instead of rows: from_tensor_slices(arrays).batch(...) where the "
    "arrays fit into memory, else a generator that yields whole batches, and no batch(...) behind",
    "elements": "batch first, then map: dataset.batch(...).map(...), so that the function is "
    "called once for a batch; it may need axis=-1 where it reduces",
}


def _describe_cache(facts: InputFacts) -> str:
    size = f"about {format_bytes(facts.epoch_bytes)}" if facts.epoch_bytes else ""
    if not facts.fits:
        return f".cache(FILE) on a local disk ({size}, more than the free memory)"
    return f".cache() ({size} of memory)" if size else ".cache()"


def _cached_stage(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    behind = f"{_describe_cache(facts)} behind the stage at {facts.line}"
    return None if facts.shuffled else f"{behind}, for all epochs but the first"


def _reshuffled_cache(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if not facts.shuffled:
        return None
    return (
        f"{_describe_cache(facts)} behind the stage at {facts.line}, for all epochs but the first; "
        "shuffle elements behind the cache, not before it, and then batch them"
    )


def _cached_decoding(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.cached is None or facts.pipeline != "operators":
        return None
    moved = ", and shuffle behind the cache" if facts.shuffled else ""
    return (
        f"divide the map at {facts.line}: decode and resize, {_describe_cache(facts)}, then a "
        f"second map with all that is random{moved}"
    )


ADVICE = (
    advice(
        *("cached-stage", "uncached-pipeline"),
        title="Keep what a stage of tf.data makes",
        doc="Cache what the stage with most of the work makes. The first epoch fills the cache. "
        "Declines where elements are shuffled before the stage.",
        summary=_cached_stage,
        risk="what is cached must fit; an epoch that is left early fills no cache",
    ),
    advice(
        *("reshuffled-cache", "uncached-pipeline"),
        title="Keep what a stage of tf.data makes, and shuffle behind it",
        doc="A cache behind a shuffle would freeze the order, so the shuffle moves behind it.",
        summary=_reshuffled_cache,
        consent="rounding",
        risk="a buffer of decoded elements takes memory, too; whole batches that are shuffled stay "
        "the same batches",
    ),
    advice(
        *("cached-decoding", "heavy-cpu-transform", "serial-map"),
        title="Cache what a stage of tf.data decodes, before anything random",
        doc="Proposed where the function of a stage decodes and draws random numbers, in several "
        "epochs. Only its author knows where the random part begins.",
        summary=_cached_decoding,
        predicted=lambda proof: proof.get_facts(InputFacts).cached,
        consent="rounding",
        risk="a random operator before the cache would be frozen; decoded elements may be larger "
        "than what the stage returns now",
    ),
    advice(
        *("whole-batch-pipeline", "serial-map", "single-batch-generator"),
        title="Hand whole batches to a pipeline",
        doc="Call ``batch`` before ``map``, or give whole batches instead of rows. Declines where "
        "stages handle batches already, or do more than arithmetic. Only the author knows whether "
        "a function reduces over an axis.",
        summary=lambda proof: _WHOLE.get(proof.get_facts(InputFacts).pipeline),
        consent="rounding",
        risk="the batch is a new first axis: functions that reduce, index or broadcast must name "
        "another one, and a generator that draws random numbers or an order must keep doing so",
    ),
    advice(
        *("tensorflow-operators", "heavy-cpu-transform"),
        title="Write Python of a pipeline in operators of TensorFlow",
        doc="Operators of a parallel ``map`` need no interpreter lock. Proposed for stages of "
        "tf.data that run Python; only their author knows what may be computed once or otherwise.",
        summary=lambda proof: (
            f"write {proof.get_facts(InputFacts).function or 'the function'} in operators of "
            "TensorFlow and call it in parallel, on whole batches where it can be "
            "(batch(...).map(...)), or compute it once into files (TFRecord)"
            if proof.get_facts(InputFacts).pipeline == "python"
            else None
        ),
        consent="rounding",
        risk="operators of TensorFlow may round differently",
    ),
)
