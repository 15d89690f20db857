"""`whyidle tune` on scripts that end in some milliseconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from whyidle.__main__ import main
from whyidle.planning.search.study import open_study, read_search_file, read_trials
from whyidle.planning.search.trial_process import MARK

pytestmark = pytest.mark.real_processes("trials are processes of their own")

SCRIPT = """
import math, os, sys, time
lr, end = float(sys.argv[1]), sys.argv[2]
for epoch in range(5):
    time.sleep(float(os.environ.get("EPOCH_S", "0")))
    print(f"epoch {epoch} val_loss: {abs(math.log10(lr) + 3) + 1 / (epoch + 1):.4f}", end=end)
"""
SPACE = ["--space", "lr=log:1e-5..1e-1"]
LOSS = ["--metric", "val_loss: {}"]


@pytest.fixture(autouse=True)
def script() -> None:
    Path("train.py").write_text(SCRIPT)


def tune(*words: str, command: tuple[str, ...] = ("train.py", "{lr}", "\n")) -> int:
    return main(["tune", "--out", "s", "--parallel", "1", *words, "--", *command])


def test_a_search_finds_the_best_region_and_tells_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("EPOCH_S", "0.05")  # a trial that is over by then cannot be pruned
    assert tune(*SPACE, *LOSS, "--trials", "9", "--json", "s.json", "--html", "s.html") == 0
    told = capsys.readouterr()
    document = json.loads(Path("s.json").read_text())
    assert document["schema"] == "whyidle/search/1"
    trials = document["trials"]
    best = trials[document["best"]]
    assert len(trials) == 9
    assert {trial["ending"] for trial in trials} == {"complete", "pruned"}
    assert 1e-4 < best["values"]["lr"] < 1e-2
    assert best["metric"] == min(t["metric"] for t in trials if t["ending"] == "complete")
    assert f"train.py {best['values']['lr']!r}" in told.out.replace("\n", "")
    assert f"Best: trial {best['number']}, val_loss" in told.out
    assert "will minimize val_loss: {} (--maximize for the reverse)" in told.err
    lines = [line for line in told.out.splitlines() if sys.executable not in line]
    assert all(len(line) <= 80 for line in lines)  # a command is never broken
    assert told.out.isascii()
    page = Path("s.html").read_text()
    assert f"Best: trial {best['number']}" in page


def test_a_grid_is_searched_whole_and_resumed_without_running_again(
    capsys: pytest.CaptureFixture[str],
):
    grid = ["--space", "lr=1e-4,1e-3,1e-2", *LOSS, "--sampler", "grid", "--prune", "none"]
    assert tune(*grid, command=("train.py", "{lr}", "\r")) == 0
    assert main(["tune", "--resume", "s"]) == 0
    told = capsys.readouterr().out
    assert "3 trials: 3 complete" in told
    assert "lr=0.001" in told
    assert tune(*SPACE, *LOSS) == 2
    assert "not the same command" in capsys.readouterr().err


def test_a_search_that_is_killed_goes_on(capsys: pytest.CaptureFixture[str]):
    words = [
        "tune",
        "--out",
        "s",
        "--parallel",
        "1",
        *SPACE,
        *LOSS,
        "--trials",
        "4",
        "-q",
        "--",
        "train.py",
    ]
    environ = {**os.environ, "EPOCH_S": "0.1"}
    child = subprocess.Popen([sys.executable, "-m", "whyidle", *words, "{lr}", "\n"], env=environ)
    output = Path("s/trials/0000/output.log")
    until = time.monotonic() + 30
    while time.monotonic() < until and not (output.exists() and output.read_bytes()):
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    until = time.monotonic() + 10
    while trial_processes() and time.monotonic() < until:
        time.sleep(0.05)
    assert trial_processes() == []
    assert main(["tune", "--resume", "s", "--parallel", "1"]) == 0
    assert "run again, since they were cut off: trial 0" in capsys.readouterr().err
    trials = read_trials(open_study(read_search_file(Path("s"))))
    assert [trial.ending for trial in trials] == ["lost", *["complete"] * 4]
    assert trials[1].values == trials[0].values
    assert trials[1].retry_of == 0


def trial_processes() -> list[int]:
    return [process.pid for process in psutil.process_iter() if is_trial(process)]


def is_trial(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.environ().get(MARK) == str(Path("s").absolute())
    return False


def test_a_metric_that_never_appears(capsys: pytest.CaptureFixture[str]):
    assert tune(*SPACE, "--metric", "accuracy: {}", "--trials", "5") == 1
    told = capsys.readouterr().err
    assert "never appeared in the first trial" in told
    assert "epoch 4 val_loss:" in told


def test_a_script_that_always_fails(capsys: pytest.CaptureFixture[str]):
    command = ("-c", "raise ValueError({lr})")
    assert tune(*SPACE, *LOSS, command=(sys.executable, *command)) == 1
    told = capsys.readouterr().err
    assert "fails in every trial (3 of 3)" in told
    assert "ValueError" in told
    code = ("-c", "raise SystemExit(3 + 0 * len('{lr}'))")
    assert (
        tune(*SPACE, *LOSS, "--out", "few", "--trials", "1", command=(sys.executable, *code)) == 1
    )


def test_wrong_usage(capsys: pytest.CaptureFixture[str]):
    assert tune(*LOSS) == 2
    assert "The space is empty" in capsys.readouterr().err
    assert tune(*SPACE) == 2
    assert "--metric is missing" in capsys.readouterr().err
    assert tune(*SPACE, *LOSS, command=("train.py",)) == 2
    assert "the command does not use it" in capsys.readouterr().err
    assert main(["tune", "--resume", "last"]) == 2
    assert "no search to resume" in capsys.readouterr().err
    assert not Path("s").exists()


def test_trials_run_with_a_plan(capsys: pytest.CaptureFixture[str]):
    plan = 'schema = "whyidle/plan/1"\ncommand = []\nmade = ""\nwhyidle = ""\n[[fix]]\n'
    plan += 'fix = "threads"\nconsent = "none"\n[fix.edits]\nenv.MARK_OF_PLAN = "7"\n'
    Path("plan.toml").write_text(plan)
    code = "import os; print('loss', {x}, os.environ['MARK_OF_PLAN'], 'loss', 1)"
    words = ["--space", "x=1,2,3", "--metric", "7 loss {}", "--plan", "plan.toml", "--trials", "2"]
    assert tune(*words, command=(sys.executable, "-c", code)) == 0
    assert "all trials run with the kept fixes: threads" in capsys.readouterr().err
    Path("plan.toml").unlink()
    assert main(["tune", "--resume", "s", "--trials", "3"]) == 0
    assert "3 trials: 3 complete" in capsys.readouterr().out


def test_a_search_is_a_study_of_optuna_and_only_shown_by_outputs():
    words = [*SPACE, "--space", "width=1..9", *LOSS, "--trials", "9", "--prune", "none"]
    command = ("train.py", "{lr}", "\n", "{width}")
    storage = f"sqlite:///{Path('studies.db').absolute()}"
    assert tune(*words, "--storage", storage, "--parallel", "2", command=command) == 0
    optuna = pytest.importorskip("optuna")
    study = optuna.load_study(study_name="s", storage=storage)
    assert len(study.trials) == 9
    assert study.trials[0].intermediate_values
    assert study.trials[0].user_attrs["whyidle.ending"] == "complete"
    assert main(["tune", "--resume", "s", "--html", "s.html"]) == 0
    assert len(study.trials) == 9
    assert main(["tune", "--resume", "s", "--trials", "10"]) == 0
    assert len(optuna.load_study(study_name="s", storage=storage).trials) == 10
    assert json.loads(Path("s/search.json").read_text())["parallel"] == 2
