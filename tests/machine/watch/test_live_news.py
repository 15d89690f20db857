"""The launcher of a command diagnoses it for those who look, and they do without its imports."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from whyidle.machine.watch import live_news
from whyidle.machine.watch.live_news import ASKED, NEWS, FollowedJob, NewsDesk
from whyidle.probe.core.recorder import ANNOTATION, OP, Recorder
from whyidle.record.live_state import LiveWatch
from whyidle.record.recording_diagnosis import note_end

MS = 1_000_000


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A job that waits for its batches half of the time, until now."""
    recorder = Recorder(str(tmp_path))
    recorder.facts = {"pid": 1, "device": "cpu"}
    wait, back, step = (
        recorder.name_number(name)
        for name in (
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "whyidle::backward",
            "Optimizer.step#SGD.step",
        )
    )
    begin = time.perf_counter_ns() - 2000 * MS
    for at in range(begin, begin + 2000 * MS, 20 * MS):
        recorder.add((at, at + 10 * MS, 1, wait, ANNOTATION))
        recorder.add((at + 10 * MS, at + 19 * MS, 1, back, OP))
        recorder.add((at + 19 * MS, at + 20 * MS, 1, step, ANNOTATION))
    recorder.flush_records()
    note_end(tmp_path, "r1", ["train.py"], None)
    return tmp_path


@pytest.fixture
def desk(recording: Path, monkeypatch) -> NewsDesk:
    monkeypatch.setattr(live_news, "EVERY_S", 0.05)
    return NewsDesk(recording, lambda: LiveWatch(recording))


def wait_for(condition: Callable[[], object]) -> object:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if result := condition():
            return result
        time.sleep(0.02)
    pytest.fail("not within 20 s")


def test_a_launcher_answers_who_asks(recording: Path, desk: NewsDesk):
    with desk:
        time.sleep(0.2)
        assert not (recording / NEWS).exists()  # nobody has asked
        follower = FollowedJob(recording, lasting=True)
        assert follower.look() is None
        news = wait_for(lambda: (known := follower.look()) and known.steps.shares and known)
        assert news.steps.count == 100
        assert news.steps.shares["input"] == pytest.approx(0.5, abs=0.05)
        assert news.steps.last_step_s < 20
        assert (news.state, follower._own) == ("starved", None)


def test_a_launcher_that_was_killed_is_not_waited_for(recording: Path, monkeypatch):
    monkeypatch.setattr(live_news, "PATIENCE_S", 0.2)
    (recording / ASKED).touch()
    (recording / NEWS).write_text("{")  # it was writing
    follower = FollowedJob(recording, lasting=True)
    assert follower.look() is None
    assert wait_for(follower.look).steps.count == 100


@pytest.mark.parametrize("lasting", [True, False])
def test_without_a_launcher_who_looks_diagnoses(recording: Path, lasting: bool):
    news = FollowedJob(recording, lasting=lasting).look()
    assert news is not None
    assert news.steps.count == 100


def test_a_watch_imports_no_arrays(tmp_path: Path):
    """NumPy and the causes are more than half of what a watch would hold."""
    text = (
        "import sys; from pathlib import Path; from whyidle.cli import _watch_screen;"
        "from whyidle.machine.alerts import alert_watch;"
        "from whyidle.machine.watch.machine_watch import MachineWatch;"
        "watch = MachineWatch(Path(sys.argv[1])); watch.look(); watch.close();"
        "print(sorted({'numpy', 'whyidle.analysis'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", text, str(tmp_path)]  # a machine without processes
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
