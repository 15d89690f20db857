"""Recordings made of looks whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from whyidle.engine.attachment.outside_recording import OutsideRecording, make_recording
from whyidle.engine.attachment.stack_look import StackLook
from whyidle.engine.attachment.target_process import TargetProcess
from whyidle.engine.attachment.thread_clocks import ThreadClocks
from whyidle.engine.attachment.window_wording import word_by_second
from whyidle.engine.diagnosis.diagnose import diagnose_job
from whyidle.importers._pyspy_trace import SampledThread, StackPeriod

MS = 1_000_000
BEGIN = 5_000 * MS
SITE = "/venv/lib/python3.11/site-packages"
PID, MAIN, OTHER, NATIVE = 70, 70, 71, 72
Phase = tuple[int, tuple[str, ...], bool, bool, bool]
"""length (ms), stack of the main thread, and whether it, a producer and a native thread are
awake"""


def target_in(folder: Path) -> TargetProcess:
    return TargetProcess(
        pid=PID,
        command=["python", "job.py"],
        folder=str(folder),
        children=(),
        recording=None,
        libraries=frozenset(),
        holds_gpu=False,
        cores=4.0,
    )


def look_at(
    phases: Sequence[Phase], producer: tuple[str, ...] = ()
) -> tuple[StackLook, ThreadClocks]:
    main = SampledThread(PID, MAIN, "MainThread")
    other = SampledThread(PID, OTHER, "Thread-1")
    clocks, now, ran = ThreadClocks([]), 0, dict.fromkeys((MAIN, OTHER, NATIVE), 0)
    for length, frames, *awake in phases:
        for part in range(length):
            for tid, runs in zip(ran, awake, strict=True):
                if part % 10 == 0:
                    clocks.add_reading(PID, tid, BEGIN + now + part * MS, ran[tid])
                ran[tid] += MS if runs else 0
        main.periods.append(StackPeriod(now, now + length * MS, frames))
        now += length * MS
    if producer:
        other.periods.append(StackPeriod(0, now, producer))
    return StackLook([main, other], BEGIN), clocks


def recording_of(
    folder: Path, phases: Sequence[Phase], producer: tuple[str, ...] = ()
) -> OutsideRecording:
    found = make_recording(target_in(folder), *look_at(phases, producer))
    assert found is not None
    return found


LOOP = "/job/train.py(16): main"
BATCH = (
    "/job/train.py(5): __getitem__",
    f"{SITE}/torch/utils/data/_utils/fetch.py(54): fetch",
    f"{SITE}/torch/utils/data/dataloader.py(785): _next_data",
    f"{SITE}/torch/utils/data/dataloader.py(725): __next__",
    LOOP,
)
BACKWARD = (f"{SITE}/torch/autograd/graph.py(979): _engine_run_backward", LOOP)
STEP = (
    f"{SITE}/torch/optim/sgd.py(127): step",
    f"{SITE}/torch/optim/optimizer.py(530): wrapper",
    LOOP,
)


def torch_step(batch: int, rest: int) -> list[Phase]:
    return [
        (batch, BATCH, True, False, False),
        (rest, BACKWARD, True, False, False),
        (2, STEP, True, False, False),
    ]


def test_long_steps_are_seen(tmp_path: Path):
    found = recording_of(tmp_path, torch_step(150, 100) * 32)
    assert found.steps_seen
    diagnosis = diagnose_job([found.timeline])
    assert diagnosis.steps.mean_s == pytest.approx(0.252, rel=0.02)
    assert diagnosis.attribution.input == pytest.approx(150 / 252, abs=0.02)
    assert diagnosis.findings[0].cause == "dataloader-no-workers"


def test_short_steps_are_told_by_the_second(tmp_path: Path):
    found = recording_of(tmp_path, torch_step(10, 4) * 500)
    assert not found.steps_seen
    diagnosis = word_by_second(diagnose_job([found.timeline]))
    assert diagnosis.steps.count == 0
    assert diagnosis.steps.mean_s is None
    assert diagnosis.attribution.input == pytest.approx(10 / 16, abs=0.02)
    assert diagnosis.findings[0].cause == "dataloader-no-workers"
    assert "625 ms per second" in diagnosis.findings[0].headline


EXECUTE = (
    f"{SITE}/tensorflow/python/eager/execute.py(53): quick_execute",
    f"{SITE}/keras/src/backend/tensorflow/trainer.py(399): fit",
    "/job/train.py(30): <module>",
)
GENERATOR = (
    "def batches():\n    while True:\n        yield augment()\n\n\ndef augment():\n    return 1\n"
)


def produced(folder: Path) -> tuple[str, ...]:
    (folder / "data.py").write_text(GENERATOR)
    return (
        f"{folder}/data.py(7): augment",
        f"{folder}/data.py(3): batches",
        f"{SITE}/tensorflow/python/ops/script_ops.py(269): __call__",
    )


def test_a_thread_that_makes_batches_is_what_the_training_waits_for(tmp_path: Path):
    phases: list[Phase] = [
        (160, EXECUTE, False, True, False),
        (40, EXECUTE, False, False, True),
    ] * 40
    found = recording_of(tmp_path, phases, produced(tmp_path))
    diagnosis = diagnose_job([found.timeline])
    assert diagnosis.run.framework == "tensorflow"
    assert diagnosis.attribution.input == pytest.approx(0.8, abs=0.06)
    assert diagnosis.findings[0].cause == "heavy-cpu-transform"
    assert diagnosis.findings[0].where[0].function == "augment"


def test_a_thread_that_makes_batches_in_time_costs_nothing(tmp_path: Path):
    phases: list[Phase] = [(200, EXECUTE, False, True, True)] * 40
    found = recording_of(tmp_path, phases, produced(tmp_path))
    diagnosis = diagnose_job([found.timeline])
    assert diagnosis.attribution.input == 0.0
    assert not diagnosis.findings


def test_a_process_outside_all_frameworks_trains_nothing(tmp_path: Path):
    phases: list[Phase] = [(8000, ("/job/other.py(3): <module>",), True, False, False)]
    assert make_recording(target_in(tmp_path), *look_at(phases)) is None
