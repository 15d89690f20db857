"""Calls of a tf.data stage wait for storage, and more of them would not help."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import find_slow_stage
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.input._pipeline_evidence import choose_calls, prove_stage
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

LOCAL = (0.5, 0.9)
"""part of the wait that a local copy removes (lower bound, expected)"""


@cause(
    "A tf.data stage waits for storage or the network",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
    frameworks=("tensorflow", "jax"),
)
def slow_data_source(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The function of a ``map`` or ``interleave`` waits for a read, a request or a sleep, although
    many of its calls already wait at the same time.

    Why it costs
    ------------
    Throughput is limited to the number of calls divided by the latency of the storage.

    How it is detected
    ------------------
    In tf.data's own model, one stage has most of the work per batch. The process keeps less than
    half a core busy meanwhile, so the calls wait. The thread pool has room for as many calls as a
    batch has elements, at most 16, and a batch still takes half a step. A local copy of the data is
    expected to remove 90 % of the wait, at least half.

    What looks alike
    ----------------
    Calls that wait one at a time, or in a smaller pool of threads, are ``serial-map``: more threads
    are cheaper. Calls that compute are ``heavy-cpu-transform``.

    What to do
    ----------
    Copy the data to a local disk or to memory, read larger parts at once (TFRecord shards of 100 MB
    instead of one file per sample), use ``.cache()``, or allow more calls at a time.

    References
    ----------
    TensorFlow, "Better performance with the tf.data API"; Mohan et al., "Analyzing and Mitigating
    Data Stalls in DNN Training", VLDB 2021.
    """
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or not slow.is_map or not slow.waits or blocked < LEAST_SHARE:
        return None
    pool = slow.pipeline.options.get("threads") or 0
    if slow.is_serial or pool < choose_calls(facts, slow) or not slow.sets_pace(facts):
        return None
    calls = round(slow.node.parallelism or 1)
    each = slow.batch_s / slow.batch_size
    gains = (LOCAL[0] * blocked, LOCAL[1] * blocked, blocked)
    return prove_stage(
        facts,
        slow,
        f"Calls of {slow.describe_call()} wait {format_duration(each)} each for storage or the "
        f"network, {calls} at a time",
        from_gains(gains, "P1: local samples"),
        InputFacts(workers=calls, waits=True, parallel=True, pipeline="waits"),
    )
