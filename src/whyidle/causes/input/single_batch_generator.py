"""Python makes each batch for tf.data or Keras, on too few threads."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import mostly_waits
from whyidle.analysis.input.data_libraries import STARVED, typical_waiting_share, waiting_share
from whyidle.analysis.input.tfdata_pipelines import find_generator, given_rows, pipeline_waits
from whyidle.analysis.lines.source_lines import frame_place
from whyidle.analysis.steps.forecast import from_gains, hidden_loading
from whyidle.causes.input._pipeline_evidence import prove_whole_batches
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts

MOST_WORKERS = 8
"""threads for code that mostly waits: each holds a batch"""
EPOCH_END_S = 0.115
"""how long Keras takes at the end of an epoch to empty the queue of several workers (0.111 to 0.122
in three jobs on TensorFlow, JAX and PyTorch, Keras 3.15); one worker has no queue"""


@cause(
    "A generator makes one batch after the other",
    bucket="input",
    needs=("device_time", "steps", "loader_marks"),
    watched=("device_marks", "steps", "loader_marks"),
)
def single_batch_generator(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``tf.data.Dataset.from_generator``, a generator given to ``fit``, or a ``PyDataset`` of Keras
    on any backend: one thread, or the dataset's workers, run the job's Python for each batch.

    Why it costs
    ------------
    However many cores there are, no more batches are made at a time, and the step waits for them.

    How it is detected
    ------------------
    The pipeline of the training begins with a generator, or Keras on JAX or PyTorch is fitted on
    one or on a PyDataset, and steps wait for at least a tenth of their time; so a batch takes each
    of the threads as long as that many steps. Where the code mostly waits, by the CPU time of the
    process, more threads wait at a time; where it works in Python, the interpreter lock lets one
    thread work, and at least nothing is gained: with several workers already, that is not a
    finding, and only what most requests wait counts, as more workers begin no epoch sooner. Keras
    empties the queue of a PyDataset with several workers at the end of an epoch, which takes a
    tenth of a second however many there are: that is input, but none of these waits, and a cost of
    workers where one thread made the batches.

    Where ``batch`` joins what the generator gives, the probe times its own code: the rest of the
    wait is TensorFlow's, which takes every row out of Python by itself, and goes with whole
    batches.

    What looks alike
    ----------------
    A serial ``map`` is ``serial-map``.

    What to do
    ----------
    Give whole batches, not rows: slices of arrays by ``from_tensor_slices``, or arrays of a batch
    by the generator. ``PyDataset(workers=8)``; for work in Python ``use_multiprocessing=True``, or
    the same work by TensorFlow's operators in a parallel ``map``, or files that are made once
    (TFRecord).

    References
    ----------
    Keras, "keras.utils.PyDataset"; TensorFlow, "tf.data: from_generator".
    """
    process, blocked = facts.timeline.process, waiting_share(facts)
    stage, dataset = find_generator(process.pipelines), process.py_dataset
    if blocked < STARVED or (stage is None and (dataset is None or process.pipelines)):
        return None
    waits, now = pipeline_waits(facts), max(1, dataset.workers if dataset else 1)
    waits = mostly_waits(facts) if waits is None else waits
    if now > 1:
        blocked = min(blocked, typical_waiting_share(facts, now))
        if not waits or blocked < STARVED:
            return None  # more threads share a lock or cores that these use, or have no more to do
    lines = (dataset.making if dataset else None, stage.line if stage else None)
    places = [place for text in lines if text and (place := frame_place(text, facts.rank))]
    if rows := given_rows(process.pipelines):
        count, own_s = rows
        headline = f"A generator gives {count} rows one by one for each batch: its own code takes "
        headline += f"{format_duration(own_s)} of {format_duration(facts.step_s)}"
        told = [make_evidence("the generator's own code, per batch", own_s, "s")]
        more = {"blocked": blocked, "kept_s": own_s}
        return prove_whole_batches(facts, headline, told, **more, where=places, pipeline="rows")
    workers = max(2 * now, MOST_WORKERS if waits else int(process.cores or 2))
    busy = facts.busy_ratio or 0.0
    batches = (dataset.batches if dataset and now == 1 else None) or float("inf")
    ends = (EPOCH_END_S / facts.step_s + blocked) / batches  # and the first batch of the next one
    gains = hidden_loading(
        blocked, now, (0.0, 0.0), busy, workers=(now, workers), given=workers, ends=ends
    )
    expected, high = (min(gain, blocked) for gain in gains[1:])
    low = expected / 2 if waits else 0.0
    words = "waits (for storage, a server, a sleep)" if waits else "works"
    who = "One thread makes" if now == 1 else f"{now} workers make"
    return Proof(
        headline=f"{who} the batches in Python: {format_duration(now * facts.step_s)} each",
        low=low,
        high=blocked,
        predicted=from_gains((low, expected, high), f"P1: {workers} batches at a time"),
        evidence=(
            make_evidence("wait for batches, share of step", blocked, "ratio"),
            make_evidence("meanwhile its code mostly", words, None, source="CPU time"),
        ),
        confidence=0.85,
        where=tuple(places),
        facts=InputFacts(
            workers=workers if dataset and dataset.workers else None, was=now, waits=waits
        ),
    )
