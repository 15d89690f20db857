"""Training stands still while a checkpoint is written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_interruptions, predict_removal
from whyidle.analysis.intervals import union_of
from whyidle.analysis.pauses import Pauses, find_pauses
from whyidle.causes.interruption._checkpoint_fixes import predict_background_write, predict_rarer
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which saving is not worth a word"""
LEFT_AT_WORST = 0.5
"""residual of an asynchronous save at the careful end: copying, starting and joining it; published
stalls fall to between a twentieth and a quarter"""


@cause(
    "Training waits while a checkpoint is written",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def sync_checkpoint(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The training process itself serialises the model and writes it to storage before the next step
    may begin.

    Why it costs
    ------------
    The GPU idles for the whole write, although only the copy of the state from the device has to
    happen at that moment.

    How it is detected
    ------------------
    The device is idle while the launching thread is inside a function that saves (``torch.save``,
    ``save_pretrained``, ``torch.distributed.checkpoint``). An asynchronous save leaves the
    device-to-host copies seen meanwhile. On a watched process the waits of the function that saves
    count too, as long as nothing else was called since: the file goes to the disk, gets its name.
    A recording with one save does not tell how often it
    happens, so its careful prediction is nothing. On a CPU job whoever writes beside the training
    takes its cores, and copying the process costs time of its own.

    What looks alike
    ----------------
    Logging of pictures or uploads is ``blocking-logging-upload``. Waiting for storage while data
    is read is an input stall.

    What to do
    ----------
    Copy the state to host memory and write the copy in a thread; save less often.

    References
    ----------
    PyTorch, ``torch.distributed.checkpoint.async_save``; Mohan et al., "CheckFreq", FAST 2021;
    Young, "A First Order Approximation to the Optimum Checkpoint Interval", CACM 17(9), 1974.
    """
    found = find_pauses(facts, Role.CHECKPOINT)
    if found is None or found.share < LEAST_SHARE:
        return None
    residual = min(_copied_s(facts, found) / max(found.total_s, 1e-9), 1.0)
    expected = predict_interruptions(found.share, residual) * (1.0 if found.is_recurring else 0.5)
    high = predict_interruptions(found.most, residual)
    low = (
        predict_interruptions(found.least, max(residual, LEFT_AT_WORST))
        if found.is_recurring
        else 0.0
    )
    return Proof(
        headline=f"Training stands still for up to {format_duration(found.longest_idle_s)} while a "
        "checkpoint is written",
        low=low,
        high=high,
        predicted=predict_removal(
            low, high, "P9: what is left is the copy from the device", expected
        ),
        evidence=(
            make_evidence("device idle while saving, share of the recording", found.share, "ratio"),
            make_evidence("time spent saving", found.total_s, "s", samples=len(found.spans)),
            make_evidence("steps with a save", found.steps_hit, None, samples=facts.step_count),
            make_evidence("share of a save that is the copy from the device", residual, "ratio"),
            *_size_evidence(facts),
        ),
        confidence=0.9 if found.is_recurring else 0.7,
        where=(found.place,) if found.place else (),
        facts=replace(predict_rarer(facts, found), beside=predict_background_write(facts, found)),
    )


def _size_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """The largest file that a watched job saved."""
    sizes = [one.bytes for one in facts.timeline.process.saves if one.bytes]
    if not sizes:
        return ()
    largest = max(sizes)
    return (
        make_evidence(
            "size of a checkpoint", largest, "bytes", samples=len(sizes), source="torch.save"
        ),
    )


def _copied_s(facts: Facts, found: Pauses) -> float:
    device = facts.device
    rows = np.flatnonzero(facts.direction == "d2h")
    copies = union_of(device.start[rows], device.end[rows])
    return (copies & found.spans).total / 1e9
