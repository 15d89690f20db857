"""Training waits while a checkpoint is written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE
from whyidle.analysis.intervals import union_of
from whyidle.analysis.partition.pauses import Pauses, find_pauses
from whyidle.analysis.steps.after_effects import predict_absence
from whyidle.analysis.steps.forecast import predict_interruptions, predict_removal, predict_risk
from whyidle.model.cause import LEAST_SHARE, LEFT_AT_WORST, Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import SAVES, InterruptionFacts
from whyidle.model.roles import Role

COPY_S_PER_BYTE = (1 / 0.2e9, 1 / 1e9, 1 / 8e9)
"""copying the state within host memory (low, expected, high gain): a virtual machine reached 0.2 to
0.7 GB/s into newly allocated memory"""

FAILURES_S = (4 * 3600.0, 24 * 3600.0, 10 * 24 * 3600.0)
"""assumed time between failures of a job (low, expected, high gain): with more GPUs it decreases
from weeks to hours (Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning
Research Clusters", HPCA 2025)"""


@cause(
    "Training waits while a checkpoint is written",
    bucket="interruption",
    needs=("device_time", "steps", "pause_marks"),
    watched=("device_marks", "steps", "pause_marks"),
)
def sync_checkpoint(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The training process serialises the model and writes it to storage before the next step.

    Why it costs
    ------------
    The GPU is idle for the whole write, although only the copy of the state has to happen then.

    How it is detected
    ------------------
    The device is idle while the launching thread is inside a function that saves (``torch.save``,
    ``save_pretrained``, ``torch.distributed.checkpoint``), for at least 1 % of the time. In a
    watched process, waits of the saving function (sync to disk, rename) count too. The prediction
    keeps only the recorded device-to-host copies (P9). With a single save the lower bound is zero,
    because its frequency is unknown. On a CPU, a background write also takes cores from training.

    What looks alike
    ----------------
    Logging of pictures or uploads is reported as ``blocking-logging-upload``. Waiting for storage
    while reading data is an input stall.

    What to do
    ----------
    Copy the state to host memory and write the copy in a thread, or save less often.

    References
    ----------
    PyTorch, ``torch.distributed.checkpoint.async_save``; Mohan et al., "CheckFreq", FAST 2021;
    Young, "A First Order Approximation to the Optimum Checkpoint Interval", CACM 17(9), 1974.
    """
    pauses = find_pauses(facts, Role.CHECKPOINT)
    if pauses is None or pauses.share < LEAST_SHARE:
        return None
    residual = min(_copied_s(facts, pauses) / max(pauses.total_s, 1e-9), 1.0)
    expected = predict_interruptions(pauses.share, residual) * (1.0 if pauses.is_recurring else 0.5)
    high = predict_interruptions(pauses.most, residual)
    careful = predict_interruptions(pauses.least, max(residual, LEFT_AT_WORST))
    low = careful if pauses.is_recurring else 0.0
    return Proof(
        headline=_make_headline(facts, pauses),
        predicted=predict_removal(low, high, "P9: only the copy from the device remains", expected),
        removal=predict_absence(facts, pauses),
        evidence=(
            make_evidence("device idle while saving, share of time", pauses.share, "ratio"),
            make_evidence("time spent saving", pauses.total_s, "s", samples=len(pauses.spans)),
            make_evidence(SAVES, pauses.steps_hit, None, samples=facts.step_count),
            make_evidence("share of a save that is the copy from the device", residual, "ratio"),
            *_size_evidence(facts),
        ),
        confidence=0.9 if pauses.is_recurring else 0.7,
        where=(pauses.place,) if pauses.place else (),
        facts=replace(predict_rarer(facts, pauses), beside=predict_background_write(facts, pauses)),
    )


def _make_headline(facts: Facts, pauses: Pauses) -> str:
    """How long saving takes, and how long the device idles for it where it has queued work."""
    mean = format_duration(pauses.total_s / max(len(pauses.spans), 1))
    idle = format_duration(pauses.longest_idle_s)
    most = "" if idle == mean else f"; the {facts.device_noun} idles up to {idle} for it"
    return f"Training stops for {mean} while a checkpoint is written{most}"


def _size_evidence(facts: Facts) -> tuple[Evidence, ...]:
    sizes = [save.bytes for save in facts.timeline.process.saves if save.bytes]
    if not sizes:
        return ()
    return (make_evidence("size of a checkpoint", max(sizes), "bytes", samples=len(sizes)),)


def _copied_s(facts: Facts, pauses: Pauses) -> float:
    device = facts.device
    rows = np.flatnonzero(facts.direction == "d2h")
    copies = union_of(device.start[rows], device.end[rows])
    return (copies & pauses.spans).total / 1e9


def predict_background_write(facts: Facts, pauses: Pauses) -> Predicted | None:
    """The gain if a thread writes a copy of the state, in a job on the CPU: its CPU work takes time
    on the same cores. None with a device, or if the number of cores is unknown."""
    loading, process, telemetry = facts.timeline.loading, facts.timeline.process, facts.telemetry
    cores = loading.cores or process.cores
    cores = cores or (telemetry.mean_value("cores_effective") if telemetry else None)
    if not facts.on_cpu or not cores:
        return None
    each_s = pauses.total_s / max(pauses.steps_hit, 1)
    worked, size = _checkpoint_facts(facts)
    full = min((loading.threads or process.operator_threads or cores) / cores, 1.0)
    gains = []
    for share, worth, copy_s in zip(
        (pauses.least, pauses.share, pauses.most), BUSY_CORE, COPY_S_PER_BYTE, strict=True
    ):
        taken = worked * full / (cores * worth)
        left = min(taken, 1.0) + size * copy_s / max(each_s, 1e-9)
        gains.append(share * (1.0 - left))
    low, expected, high = gains
    often = 1.0 if pauses.is_recurring else 0.0
    return predict_risk(
        min(low, low * often),
        max(high, 0.0),
        "P9: written by a thread on the same cores",
        max(expected, 0.0),
    )


def _checkpoint_facts(facts: Facts) -> tuple[float, float]:
    """Share of saving that was CPU work (all if unknown), and bytes of the largest file (0 if
    unknown)."""
    saves = facts.timeline.process.saves
    worked = [(save.cpu_s, save.seconds) for save in saves if save.cpu_s is not None]
    cpu, wall = (sum(column) for column in zip(*worked, strict=True)) if worked else (0.0, 0.0)
    size = max((save.bytes for save in saves if save.bytes), default=0)
    return (min(cpu / wall, 1.0) if wall > 0.0 else 1.0), float(size)


def predict_rarer(facts: Facts, pauses: Pauses) -> InterruptionFacts:
    """The gain of the interval that loses the least time: ``sqrt(2 C M)``, for a checkpoint of
    ``C`` seconds and a failure every ``M`` (Young, "A First Order Approximation to the Optimum
    Checkpoint Interval", CACM 17(9), 1974). For the lower bound, a job that ends sooner
    still writes its last checkpoint. Empty with a single checkpoint, or with rare checkpoints."""
    if not pauses.is_recurring:
        return InterruptionFacts()
    each_s = pauses.total_s / pauses.steps_hit
    now_s = facts.scope_s / pauses.steps_hit
    apart = [(2.0 * each_s * failures) ** 0.5 for failures in FAILURES_S]
    if apart[1] <= now_s:
        return InterruptionFacts()
    shares = (pauses.least, pauses.share, pauses.most)
    careful = min(apart[0], facts.scope_s)
    low, expected, high = (
        share * max(0.0, 1.0 - now_s / seconds)
        for share, seconds in zip(shares, (careful, *apart[1:]), strict=True)
    )
    method = "P9: the best interval for one failure a day (Young 1974)"
    rarer = predict_removal(low, high, method, expected)
    return InterruptionFacts(rarer=rarer, interval_s=(now_s, apart[1]), seen_s=facts.scope_s)
