"""Parallel calls of a tf.data stage wait for the slowest one, because elements keep their order."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.tfdata_pipelines import find_slow_stage, stage_evidence
from whyidle.causes.input._pipeline_evidence import pipeline_places
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

WON = (0.25, 0.5, 1.0)
"""part of the time by which a step is longer than its calls need that unordered results win: a map
whose every sixteenth call took 25 times as long won 0.7 with eight calls at a time, 0.5 with four
(TensorFlow 2.21)"""


@cause(
    "Parallel calls of tf.data wait for the slowest one",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
    frameworks=("tensorflow", "jax"),
)
def ordered_results(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A parallel ``map`` or ``interleave`` hands its results on in their order. While one call takes
    long, the results of the others wait for it, and their threads have nothing to do.

    Why it costs
    ------------
    With calls of unequal length the stage makes far fewer elements than its threads could, and the
    step waits for them.

    How it is detected
    ------------------
    tf.data's own model: one stage has most of the work on a batch and handles several elements at
    a time; its calls wait rather than work (the CPU time of the process), and the job gave the
    pipeline a thread for each. So they could make a batch in the work divided by their number; a
    step takes at least twice as long and waits for its batches. The job has not given up the order.

    What looks alike
    ----------------
    Calls that need the whole step for a batch are ``slow-data-source``; without a thread for each
    they are ``small-data-threadpool``. Calls that work share the cores with the training, which
    this cause does not judge. A ``map`` that tf.data joins with ``batch`` hardly waits for order.

    What to do
    ----------
    ``map(..., deterministic=False)``, or ``options.deterministic = False`` for the pipeline. The
    order of elements then varies from run to run.

    References
    ----------
    TensorFlow, "tf.data.Options: deterministic".
    """
    slow, blocked = find_slow_stage(facts), facts.bucket_share("input")
    if slow is None or not slow.is_map or slow.is_serial or not slow.waits:
        return None
    options, calls = slow.pipeline.options, slow.node.parallelism or 1.0
    pool = options.get("threads") or 0
    if blocked < LEAST_SHARE or options.get("deterministic") is not None or pool < calls:
        return None
    if slow.sets_pace(facts):
        return None
    needed = slow.batch_s / calls / facts.step_s
    most = min(blocked, 1.0 - needed)
    low, expected, high = (part * most for part in WON)
    alone_s = slow.batch_s / calls
    return Proof(
        headline=f"Results of {slow.describe_call()} wait for their order: {calls:.0f} calls at a "
        f"time need {format_duration(alone_s)} for a batch, a step takes "
        f"{format_duration(facts.step_s)}",
        low=low,
        high=most,
        predicted=from_gains((low, expected, high), "P1: results as they come"),
        evidence=(
            make_evidence("wait for batches, share of step", blocked, "ratio"),
            make_evidence("its work on a batch, for each call at a time", alone_s, "s"),
            *stage_evidence(slow),
        ),
        confidence=0.75,
        where=pipeline_places(facts, slow),
        facts=InputFacts(parallel=True, waits=True),
    )
