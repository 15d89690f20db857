"""`whyidle attach`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.__main__ import main
from whyidle.testing.recorded_job import RecordedJob


@pytest.mark.parametrize("words", [["x"], ["0"], ["-3"], ["4711", "--seconds", "1"], []])
def test_wrong_arguments(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["attach", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_process_that_does_not_exist(capsys: pytest.CaptureFixture[str]):
    assert main(["attach", str(2**22 + 5)]) == 1
    assert "There is no process" in capsys.readouterr().err


@pytest.mark.real_processes("a process is started")
def test_a_watched_process_is_told_from_its_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    recorded = RecordedJob()
    for _ in range(10):
        recorded.batch(60_000_000)
        recorded.step("/job/train.py(22): <module>", 20_000_000)
    recorded.save(tmp_path)
    words = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(30)"]
    environ = {**os.environ, "WHYIDLE_RUN": str(tmp_path)}
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        status = main(["attach", str(running.pid), "--json", "-", "--store", str(tmp_path / "s")])
        running.kill()
    shown = capsys.readouterr()
    assert status == 0
    assert "already: this is its recording" in shown.err
    assert json.loads(shown.out)["steps"]["count"] > 5
