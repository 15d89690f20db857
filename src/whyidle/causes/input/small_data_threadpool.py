"""Calls of a parallel tf.data stage wait, and its thread pool has one thread per core."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import find_slow_stage
from whyidle.causes.input._pipeline_evidence import choose_calls, predict_calls, prove_stage
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts


@cause(
    "The thread pool of tf.data is too small for calls that wait",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
    frameworks=("tensorflow", "jax"),
)
def small_data_threadpool(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The calls of a parallel ``map`` or ``interleave`` wait for storage or a server, and tf.data has
    only as many threads as the machine has cores.

    Why it costs
    ------------
    A call that waits occupies a thread but no core. The pool is full while the cores are idle, so
    ``num_parallel_calls`` beyond the size of the pool has no effect.

    How it is detected
    ------------------
    In tf.data's own model, one stage with a parallelism above 1 has most of the work per batch.
    This takes at least half a step on its threads. While the step waits for batches, the process
    keeps less than half a core busy. The job has set no pool, or one that is too small. The
    prediction uses a pool for as many calls as a batch has elements, at most 16.

    What looks alike
    ----------------
    A stage of parallelism 1 is ``serial-map``. Calls that compute are ``heavy-cpu-transform``.

    What to do
    ----------
    ``options = tf.data.Options(); options.threading.private_threadpool_size = 16; dataset =
    dataset.with_options(options)``, or ``map(..., use_unbounded_threadpool=True)`` if available.

    References
    ----------
    TensorFlow, "tf.data.ThreadingOptions"; tensorflow/tensorflow#14448, #15694.
    """
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or not slow.is_map or slow.is_serial:
        return None
    if not slow.waits or blocked < LEAST_SHARE or not slow.sets_pace(facts):
        return None
    pool = slow.pipeline.options.get("threads")
    calls = choose_calls(facts, slow)
    if pool is not None and pool >= calls:
        return None
    predicted = predict_calls(facts, slow, calls, blocked)
    has = f"a pool of {pool}" if pool else "one thread per core"
    known = InputFacts(workers=calls, waits=True, was=pool, parallel=True)
    headline = f"Calls of {slow.describe_call()} wait, and tf.data has {has}: "
    headline += f"{format_duration(slow.batch_s)} of waiting per batch"
    return prove_stage(facts, slow, headline, predicted, known, confidence=0.85)
