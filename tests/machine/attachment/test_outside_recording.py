"""Recordings made of looks whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.machine.attachment.attach import name_slowest, word_by_second
from whyidle.machine.attachment.outside_recording import (
    OutsideRecording,
    make_recordings,
    trains_elsewhere,
)
from whyidle.machine.attachment.stack_look import StackLook
from whyidle.machine.attachment.target_process import TargetProcess
from whyidle.machine.attachment.thread_clocks import ThreadClocks
from whyidle.readers._events.pyspy_trace import SampledThread, StackPeriod

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
    (found,) = make_recordings(target_in(folder), *look_at(phases, producer))
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
    assert make_recordings(target_in(tmp_path), *look_at(phases)) == []


SCORE = ("/job/train.py(9): score", LOOP)
LINEAR = (f"{SITE}/torch/nn/modules/linear.py(134): forward", LOOP)


def held_look(phases: Sequence[Phase], held: dict[tuple[str, ...], float]) -> StackLook:
    """A look in which a stack holds the interpreter lock for a share of its time."""
    look, _ = look_at(phases)
    lines = {
        frames[0]: share * sum(length for length, own, *_ in phases if own == frames) / 20
        for frames, share in held.items()
    }
    return replace(look, holders={(PID, MAIN): lines})


@pytest.mark.parametrize(("share", "python"), [(1.0, 0.6), (0.5, 0.3), (0.0, 0.0)])
def test_python_that_holds_the_lock_is_not_computing(tmp_path: Path, share: float, python: float):
    """A line that calls operators holds the lock for a part of its time only."""
    phases = [(120, SCORE, True, False, False), (80, LINEAR, True, False, False)] * 40
    look = held_look(phases, {SCORE: share, LINEAR: 0.1})
    (found,) = make_recordings(target_in(tmp_path), look, look_at(phases)[1])
    assert found.lock_seen
    diagnosis = word_by_second(diagnose_job([found.timeline]))
    assert diagnosis.attribution.host == pytest.approx(python, abs=0.04)
    assert diagnosis.attribution.compute == pytest.approx(1 - python, abs=0.04)


def test_without_a_look_at_the_lock_it_counts_as_the_operators(tmp_path: Path):
    phases = [(120, SCORE, True, False, False), (80, LINEAR, True, False, False)] * 40
    found = recording_of(tmp_path, phases)
    assert not found.lock_seen
    assert diagnose_job([found.timeline]).attribution.host < 0.02


def ranks_look(target: TargetProcess, fast: int, slow: int) -> list[OutsideRecording]:
    """Two ranks, of which one waits in its backward pass until the other has loaded."""
    first, clocks = look_at(
        [(fast, BATCH, True, False, False), (slow - fast, BACKWARD, False, False, False),
         (60, BACKWARD, True, False, False)] * 30
    )  # fmt: skip
    late = SampledThread(PID + 10, PID + 10, "MainThread")
    now = ran = 0
    for length, frames in [(slow, BATCH), (60, BACKWARD)] * 30:
        late.periods.append(StackPeriod(now, now + length * MS, frames))
        for part in range(0, length, 10):
            clocks.add_reading(late.pid, late.pid, BEGIN + now + part * MS, ran + part * MS)
        now, ran = now + length * MS, ran + length * MS
    return make_recordings(target, replace(first, threads=[*first.threads, late]), clocks)


def test_all_ranks_are_diagnosed_and_the_slowest_is_named(tmp_path: Path):
    target = replace(target_in(tmp_path), parents={PID + 10: PID}, ranks={PID: 1, PID + 10: 0})
    found = ranks_look(target, 40, 140)
    assert [(one.timeline.rank, one.thread.pid) for one in found] == [(0, PID + 10), (1, PID)]
    assert [round(one.waiting, 1) for one in found] == [0.0, 0.5]
    assert "rank 0 (process 80) is the slowest: it sleeps 0%" in name_slowest(found)
    diagnosis = diagnose_job([one.timeline for one in found])
    assert diagnosis.findings[0].cause == "dataloader-no-workers"
    assert {place.rank for place in diagnosis.findings[0].where} == {0}
    assert diagnosis.attribution.communication == pytest.approx(0.25, abs=0.03)


def test_of_even_ranks_none_is_named(tmp_path: Path):
    found = ranks_look(replace(target_in(tmp_path), parents={PID + 10: PID}), 140, 140)
    assert [one.timeline.rank for one in found] == [0, 1]  # in the order of the processes
    assert "none of them appears to hold up the others" in name_slowest(found)


def test_a_launcher_is_no_rank(tmp_path: Path):
    look, clocks = look_at(torch_step(150, 100) * 32)
    agent = (f"{SITE}/torch/distributed/elastic/agent/server/api.py(900): _invoke_run",)
    launcher = SampledThread(60, 60, "MainThread", [StackPeriod(0, 8000 * MS, agent)])
    target = replace(target_in(tmp_path), pid=60, children=(PID,), parents={PID: 60})
    found = make_recordings(target, replace(look, threads=[launcher, *look.threads]), clocks)
    assert [one.thread.pid for one in found] == [PID]


def test_a_process_whose_children_train_is_looked_at_again(tmp_path: Path):
    look, _ = look_at(torch_step(150, 100) * 32)
    waits = SampledThread(60, 60, "MainThread", [StackPeriod(0, 8000 * MS, ("a.py(3): join",))])
    assert not trains_elsewhere(PID, look)
    assert trains_elsewhere(60, replace(look, threads=[waits, *look.threads]))
