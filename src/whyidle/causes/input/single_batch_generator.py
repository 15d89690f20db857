"""A Python generator makes each batch on one thread of tf.data."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, hidden_loading
from whyidle.analysis.source_lines import frame_place
from whyidle.analysis.tfdata_pipelines import generator_stage, pipeline_waits, training_pipeline
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

STARVED = 0.1
"""least share of the step that waits. tf.data does not count the time of a generator; while steps
wait for it, it makes one batch in the time of a step"""
MOST_WORKERS = 8
"""threads for code that mostly waits: each holds a batch"""


@cause(
    "A generator makes one batch after the other",
    bucket="input",
    needs=("device_time", "steps", "tfdata_model"),
    watched=("device_marks", "steps", "tfdata_model"),
)
def single_batch_generator(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``tf.data.Dataset.from_generator``, a generator given to ``fit``, or a ``PyDataset`` of Keras
    with one worker: one thread runs the job's Python for each batch.

    Why it costs
    ------------
    However many cores there are, one batch is made at a time, and the step waits for it.

    How it is detected
    ------------------
    The pipeline of the training begins with a generator, and steps wait for at least a tenth of
    their time; so a batch takes as long as a step. Where the code mostly waits, by the CPU time of
    the process, several threads wait at a time; where it works in Python, the interpreter lock lets
    one thread work, and careful nothing is gained.

    What looks alike
    ----------------
    A serial ``map`` is ``serial-map``.

    What to do
    ----------
    ``PyDataset(workers=8)``; for work in Python ``use_multiprocessing=True``, or the same work by
    TensorFlow's operators in a parallel ``map``, or files that are made once (TFRecord).

    References
    ----------
    Keras, "keras.utils.PyDataset"; TensorFlow, "tf.data: from_generator".
    """
    pipeline, blocked = training_pipeline(facts), facts.bucket_share("input")
    stage = generator_stage(pipeline) if pipeline else None
    if pipeline is None or stage is None or blocked < STARVED:
        return None
    waits = pipeline_waits(facts)
    workers = MOST_WORKERS if waits else max(2, int(facts.timeline.process.cores or 2))
    gains = hidden_loading(
        blocked, 1.0, (0.0, 0.0), facts.busy_ratio or 0.0, workers=(1, workers), given=workers
    )
    low = gains[1] / 2 if waits else 0.0
    lines = [text for text in (pipeline.making, stage.line) if text]
    places = [place for text in lines if (place := frame_place(text, facts.rank))]
    words = "waits (for storage, a server, a sleep)" if waits else "works"
    return Proof(
        headline=f"One thread makes the batches in Python: {format_duration(facts.step_s)} each",
        low=low,
        high=blocked,
        predicted=from_gains((low, gains[1], gains[2]), f"P1: {workers} batches at a time"),
        evidence=(
            make_evidence("wait for batches, share of step", blocked, "ratio"),
            make_evidence("meanwhile its code mostly", words, None, source="CPU time"),
        ),
        confidence=0.85,
        where=tuple(places),
        facts=InputFacts(workers=workers if pipeline.dataset else None, waits=bool(waits)),
    )
