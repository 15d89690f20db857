"""A stage of the tf.data pipeline handles one element, or too few, at a time."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import (
    batched_elements,
    count_batches,
    find_slow_stage,
    stage_evidence,
)
from whyidle.causes.input._pipeline_evidence import (
    choose_calls,
    describe_cache,
    pipeline_places,
    predict_calls,
    prove_stage,
    prove_whole_batches,
)
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts


@cause(
    "A tf.data stage handles too few elements at a time",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
    frameworks=("tensorflow", "jax"),
)
def serial_map(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``dataset.map(f)`` without ``num_parallel_calls`` stays serial if ``f`` runs Python
    (``tf.numpy_function``, ``tf.py_function``) or draws random numbers. So does ``interleave``.

    Why it costs
    ------------
    The elements of a batch are made one after the other, and the step waits for all of them.

    How it is detected
    ------------------
    In tf.data's own model, one stage has most of the work per batch, its parallelism is fixed at 1,
    and the step waits for batches. A plain ``interleave`` counts, because it reads one source at a
    time. The prediction lets the stage handle several elements at a time: up to 16 if its code
    mostly waits, otherwise one per core. The CPU time of the process shows which. The CPU time of
    Python stays serial because of the interpreter's lock.

    A parallel stage whose calls wait is reported if tf.data's thread pool has fewer threads than
    that. Where the job has set no pool, it has one thread per core.

    A stage before ``batch`` is also reported if it does plain arithmetic on each element, and
    moving the bytes would take less than half of its time. The other stages' time remains.

    What looks alike
    ----------------
    Stateless functions of TensorFlow operators are made parallel by tf.data
    (``map_parallelization``), so ``num_parallel_calls=AUTOTUNE`` changes nothing. Parallel calls
    that compute are ``heavy-cpu-transform``, and so is Python that computes: it holds the
    interpreter's lock, so more threads do not help.

    What to do
    ----------
    Use ``map(f, num_parallel_calls=16)`` with a thread pool as large
    (``options.threading.private_threadpool_size``), or ``use_unbounded_threadpool=True`` if
    available. The order of elements stays the same. For arithmetic, call ``batch`` before ``map``.

    References
    ----------
    TensorFlow, "Better performance with the tf.data API"; Murray et al., "tf.data: A Machine
    Learning Data Processing Framework", VLDB 2021.
    """
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or blocked < LEAST_SHARE:
        return None
    if slow.is_batchable:
        nodes = slow.pipeline.nodes
        before = list(zip(nodes, count_batches(nodes), strict=True))[nodes.index(slow.node) + 1 :]
        others_s = sum(node.ns / made / 1e9 for node, made in before if made)
        size = batched_elements(slow.pipeline, slow.stage) or slow.batch_size
        headline = f"The tf.data stage {slow.describe_call()} is called for each of the {size} "
        headline += f"elements of a batch, not once: {format_duration(slow.batch_s)}"
        more = {"blocked": blocked, "kept_s": others_s}
        told, at = stage_evidence(slow), pipeline_places(facts, slow)
        return prove_whole_batches(facts, headline, told, **more, where=at, pipeline="elements")
    if not (slow.is_map and slow.sets_pace(facts)):
        return None
    if (slow.waits is False and slow.is_python) or not (slow.waits or slow.is_serial):
        return None  # the interpreter lock lets one thread work, or parallel calls work already
    calls, pool = choose_calls(facts, slow), slow.pipeline.options.get("threads")
    if calls < 2 or (not slow.is_serial and (pool or 0) >= calls):
        return None  # an interleave of one source, or a pool with room for all calls
    if slow.is_serial:
        headline = f"The tf.data stage {slow.describe_call()} handles one element at a time: "
        headline += f"{format_duration(slow.batch_s)} per batch"
    else:
        has = f"a pool of {pool}" if pool else "one thread per core"
        headline = f"Calls of {slow.describe_call()} wait, and tf.data has {has}: "
        headline += f"{format_duration(slow.batch_s)} of waiting per batch"
    predicted = predict_calls(facts, slow, calls, blocked)
    known = InputFacts(
        workers=calls,
        waits=bool(slow.waits),
        was=pool,
        parallel=not slow.is_serial,
        interleaved=slow.is_interleave,
        pipeline="operators",
        **describe_cache(facts, slow),
    )
    confidence = 0.9 if slow.waits is not None else 0.7
    return prove_stage(facts, slow, headline, predicted, known, confidence=confidence)
