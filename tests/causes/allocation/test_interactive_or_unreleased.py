"""A process that holds its device while it waits."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from imagined import MS, Imagined, S, finding

from whyidle.record.recording_diagnosis import read_recording
from whyidle.testing.contracts import Pair

SLEEP = "/home/me/train.py(60): linger;/home/me/train.py(70): <module>"
PDB = "/usr/lib/python3.11/cmd.py(126): cmdloop;/usr/lib/python3.11/pdb.py(361): interaction;"


def job(folder, steps, stack, length, busy=0.0):
    made = Imagined(folder)
    for _ in range(steps):
        made.step()
    made.look(stack, length, every=20 * MS, busy=busy)
    made.trained()
    return made.diagnose()


def test_asleep_after_the_last_step(tmp_path):
    diagnosis = job(tmp_path, 100, SLEEP, 8 * S)
    first = diagnosis.findings[0]
    assert first.cause == "interactive-or-unreleased"
    assert (first.where[0].line, first.where[0].function) == (60, "linger")
    assert "8 s after its last step" in first.headline
    assert first.lost.high == pytest.approx(0.8, abs=0.01)
    assert diagnosis.steps.count == 100
    assert diagnosis.steps.mean_s == pytest.approx(0.02)
    assert diagnosis.steps.warmup <= 1
    assert diagnosis.attribution.interruption == pytest.approx(0.8, abs=0.01)


def test_a_short_wait_in_a_long_run_is_a_remark(tmp_path):
    diagnosis = job(tmp_path, 1000, SLEEP, 5 * S)
    found = finding(diagnosis, "interactive-or-unreleased")
    assert (found.severity, found.lost.high) == ("info", 0.0)
    assert diagnosis.attribution.compute > 0.9


def test_work_after_training_is_work(tmp_path):
    diagnosis = job(tmp_path, 100, SLEEP, 8 * S, busy=1.0)
    assert finding(diagnosis, "interactive-or-unreleased") is None
    assert diagnosis.attribution.compute > 0.9


def test_a_debugger_in_the_loop(tmp_path):
    made = Imagined(tmp_path)
    for _ in range(40):
        made.step()
        made.look(PDB + SLEEP, 100 * MS, every=20 * MS, busy=0.0)
    made.trained()
    diagnosis = made.diagnose()
    first = diagnosis.findings[0]
    assert first.cause == "interactive-or-unreleased"
    assert "prompt or debugger" in first.headline
    assert first.where[0].file == "/home/me/train.py"


@pytest.mark.parametrize(("error", "idle"), [("ValueError: shapes", False), (None, True)])
def test_a_process_that_failed_before_its_first_step_was_not_left_behind(error, idle, tmp_path):
    made = Imagined(tmp_path, died_of=error)
    made.look(SLEEP, 8 * S, every=20 * MS, busy=0.0)
    made.seen()
    assert bool(finding(made.diagnose(), "interactive-or-unreleased")) == idle


def build_recording(busy):
    """A recording whose process goes on for 8 s after its last step, so busy."""
    with TemporaryDirectory() as folder:
        job(Path(folder), 100, SLEEP, 8 * S, busy=busy)
        return read_recording(Path(folder))


PAIRS = {
    "interactive-or-unreleased": Pair(
        sick=lambda: build_recording(busy=0.0), healthy=lambda: build_recording(busy=1.0)
    )
}
