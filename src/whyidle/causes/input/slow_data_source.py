"""Calls of a tf.data stage wait for storage, as many at a time as are useful."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.causes.input._pipeline_limits import prove_pipeline_wait
from whyidle.model.cause import Proof, cause


@cause(
    "A tf.data stage waits for storage or the network",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
    frameworks=("tensorflow", "jax"),
)
def slow_data_source(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The function of a ``map`` or ``interleave`` spends its time waiting for a read, a request or a
    sleep, and many of its calls wait at a time already.

    Why it costs
    ------------
    Throughput is limited to the number of calls divided by the latency of the storage.

    How it is detected
    ------------------
    tf.data's own model: one stage has most of the work on a batch; meanwhile the process keeps less
    than half a core busy, so its calls wait; the pipeline has a thread pool for as many calls as a
    batch has elements, at most 16; and these calls take at least half a step for a batch. The lower
    bound is half of the wait less, expected nine tenths, as for a local copy of the data.

    What looks alike
    ----------------
    Calls that wait one at a time are ``serial-map``, those in a pool as small as the cores
    ``small-data-threadpool``: more threads are the cheaper cure there. Calls that work are
    ``heavy-cpu-transform``.

    What to do
    ----------
    Copy the data to a local disk or to memory, read larger parts at once (TFRecord shards of 100 MB
    instead of a file for each sample), ``.cache()``, or still more calls at a time if the storage
    answers as many.

    References
    ----------
    TensorFlow, "Better performance with the tf.data API"; Mohan et al., "Analyzing and Mitigating
    Data Stalls in DNN Training", VLDB 2021.
    """
    return prove_pipeline_wait(facts)
