from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from whyidle.planning.search import trial_process
from whyidle.planning.search.command_template import FilledCommand
from whyidle.planning.search.trial_process import OUTPUT, TrialProcess, TrialTerms

pytestmark = pytest.mark.real_processes("it is about processes")

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
code = "import signal, time; signal.signal(15, signal.SIG_IGN)\\n"
code += "print('ready', flush=True); time.sleep(99)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
print(child.pid, flush=True)
time.sleep(99)
"""


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trial_process, "GRACE_S", 0.3)


def start(tmp_path: Path, *words: str) -> TrialProcess:
    terms = TrialTerms("loss {}", tmp_path)
    return TrialProcess(FilledCommand([sys.executable, *words], {}), tmp_path, terms)


def test_a_trial_that_is_ended_saves_and_leaves_no_process(tmp_path: Path):
    trial = start(tmp_path, "-c", STUBBORN)
    output = tmp_path / OUTPUT
    until = time.monotonic() + 20
    while "ready" not in output.read_text() and time.monotonic() < until:
        time.sleep(0.01)
    left = int(next(word for word in output.read_text().split() if word.isdigit()))
    assert trial.poll_status() is None
    trial.end_processes()
    trial.wait_for_end()
    assert trial.poll_status() == 0
    assert "saved" in output.read_text()
    assert not psutil.pid_exists(left)


def test_the_last_line_counts_although_it_is_open(tmp_path: Path):
    trial = start(tmp_path, "-c", "import sys; sys.stdout.write('loss 3'); sys.exit(7)")
    trial.wait_for_end()
    assert trial.poll_status() == 7
    assert [report.value for report in trial.read_reports()] == [3.0]


def test_a_program_that_does_not_exist(tmp_path: Path):
    terms = TrialTerms("loss {}", tmp_path)
    trial = TrialProcess(FilledCommand(["no-such-program"], {}), tmp_path, terms)
    trial.wait_for_end()
    assert trial.poll_status() == 127
    assert "Cannot run no-such-program" in (tmp_path / OUTPUT).read_text()
