"""A stage of tf.data does the same work on the same elements in every epoch."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import count_epochs, find_slow_stage
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.input._pipeline_evidence import (
    describe_cache,
    gains_without,
    is_repeated,
    prove_stage,
)
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

LEFT = (0.5, 0.1, 0.02)
"""part of the wait that stays with a cache, as for loaders (low, expected, high gain)"""


@cause(
    "tf.data repeats the same work in every epoch",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
    frameworks=("tensorflow", "jax"),
)
def uncached_pipeline(facts: Facts) -> Proof | None:
    """What it means
    -------------
    A ``map`` decodes, parses or resizes the same elements in every epoch. It uses TensorFlow
    operators that draw no random numbers.

    Why it costs
    ------------
    Every epoch repeats work that is needed once, and the step waits for it.

    How it is detected
    ------------------
    In tf.data's own model, one stage has most of the work per batch, the step waits for batches,
    and at least two epochs have begun. The graphs of this stage and of all stages before it contain
    no random operators and no Python. A cache is expected to leave 10 % of the wait, at most 50 %.
    Where steps compute on the CPU and no core is idle, they are expected to get faster, too: a
    parallel stage no longer takes their cores.

    What looks alike
    ----------------
    Functions that run Python may return something else each time and are not judged. Functions that
    also draw random numbers are ``heavy-cpu-transform``: only what they decode first can be cached.

    What to do
    ----------
    Call ``.cache()`` behind the stage, and ``shuffle`` behind the cache: a cache behind a shuffle
    freezes the order. If memory is too small, use ``.cache(file)``, or write the results to files.

    References
    ----------
    TensorFlow, "Better performance with the tf.data API: caching"; Graur et al., "Cachew", USENIX
    ATC 2022.
    """
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or blocked < LEAST_SHARE or not is_repeated(slow):
        return None
    if not slow.sets_pace(facts):
        return None
    whole = gains_without(facts, slow, blocked)
    low, expected, high = (w - left * blocked for w, left in zip(whole, LEFT, strict=True))
    headline = f"The tf.data stage {slow.describe_call()} repeats the work of the previous epoch: "
    headline += f"{format_duration(slow.batch_s)} per batch"
    predicted = from_gains((low, expected, high), "P1: cached elements")
    epochs = make_evidence("epochs begun", count_epochs(slow.pipeline), None, source="tf.data")
    known = InputFacts(**describe_cache(facts, slow))
    return prove_stage(facts, slow, headline, predicted, known, epochs, confidence=0.85)
