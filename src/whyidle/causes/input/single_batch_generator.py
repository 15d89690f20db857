"""Python makes batches for tf.data or Keras in too few threads."""

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
"""most threads for code that mostly waits; each holds a batch"""
EPOCH_END_S = 0.115
"""time that Keras takes at the end of an epoch to empty the queue of several workers (0.111 to
0.122 in three jobs on TensorFlow, JAX and PyTorch, Keras 3.15); one worker has no queue"""


@cause(
    "A generator makes one batch after the other",
    bucket="input",
    needs=("device_time", "steps", "loader_marks"),
    watched=("device_marks", "steps", "loader_marks"),
)
def single_batch_generator(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Batches come from ``tf.data.Dataset.from_generator``, a generator passed to ``fit``, or a Keras
    ``PyDataset`` on any backend. One thread, or the dataset's workers, run Python for each batch.

    Why it costs
    ------------
    Each thread makes one batch at a time, and the step waits for it even if other cores are idle.

    How it is detected
    ------------------
    The training pipeline begins with a generator, or Keras on JAX or PyTorch is fitted on a
    generator or ``PyDataset``, and steps wait for batches for at least 10 % of their time. Each of
    n threads then needs n steps per batch. The CPU time of the process shows whether the code waits
    or computes. If it waits, more threads help. If it computes in Python, the lower bound is no
    gain (the interpreter's lock lets one thread run), and several workers are not reported.

    With several workers, only the typical wait counts, because more workers do not start an epoch
    sooner. At the end of an epoch, Keras takes 0.1 s to empty the queue of several workers. A
    prediction that adds workers includes this cost.

    If ``batch`` joins the generator's rows, the probe times the generator's own code. TensorFlow
    spends the rest of the wait on taking rows out of Python one by one. Whole batches avoid this.

    What looks alike
    ----------------
    A ``map`` that handles one element at a time is ``serial-map``.

    What to do
    ----------
    Produce whole batches, not rows: slice arrays with ``from_tensor_slices``, or yield the arrays
    of a batch. Use ``PyDataset(workers=8)``. For Python that computes, set
    ``use_multiprocessing=True``, use TensorFlow operators in a ``map``, or write TFRecords.

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
