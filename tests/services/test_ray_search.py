"""`whyidle tune --engine ray` on a real local Ray, and the callback for Ray Tune."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from whyidle.engine.search.ledger import Ledger
from whyidle.engine.search.trial_process import MARK

pytest.importorskip("ray", reason="Ray is not in your package index")
pytest.importorskip("optuna")

SCRIPT = """
import math, sys, time
for epoch in range(6):
    time.sleep(0.3)
    print(f"val_loss: {abs(math.log10(float(sys.argv[1])) + 3) / 5 + 1 / (epoch + 2):.4f}")
"""
CALLBACK = """
import ray
from ray import tune
from whyidle.integrations import RayTuneCallback, watched_trainable

def train(config):
    import time, torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 80
        def __getitem__(self, index):
            time.sleep(0.004)
            return torch.randn(8)
    for epoch in range(config["epochs"]):
        for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
        tune.report({"loss": loss.item()})

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
callback = RayTuneCallback()
config = tune.RunConfig(
    storage_path=__import__("os").getcwd() + "/results",
    callbacks=[callback],
    stop={"training_iteration": 2},
)
space = {"lr": 0.1, "epochs": tune.grid_search([1, 9])}
tuner = tune.Tuner(watched_trainable(train), param_space=space, run_config=config)
for result in tuner.fit():
    found = result.metrics
    print("FOUND", found["whyidle.state"], "whyidle.cause" in found, found["whyidle.hours"] > 0)
"""


def start_search(tmp_path: Path) -> subprocess.Popen[bytes]:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["tune", "--out", "s", "--engine", "ray", "--resources", "cpu=1", "--grace", "1"]
    words += ["--space", "lr=log:1e-5..1e-1", "--metric", "val_loss: {}", "--trials", "4"]
    with (tmp_path / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "whyidle", *words, "--", "train.py", "{lr}"],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def await_reports(tmp_path: Path, running: subprocess.Popen[bytes]) -> None:
    ledger, until = tmp_path / "s" / "ledger.jsonl", time.monotonic() + 300
    while not (ledger.exists() and b'"report"' in ledger.read_bytes()):
        assert running.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < until
        time.sleep(0.1)


def members(session: int, name: str = "") -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == session and name in process.name():
                found.append(process)
    return found


def trial_processes(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder):
                found.append(process.pid)
    return found


def test_a_search_that_is_killed_goes_on_without_a_lost_trial(tmp_path: Path):
    running = start_search(tmp_path)
    await_reports(tmp_path, running)
    running.kill()
    running.wait()
    until = time.monotonic() + 30
    while trial_processes(tmp_path / "s") and time.monotonic() < until:
        time.sleep(0.2)
    assert trial_processes(tmp_path / "s") == []
    done = subprocess.run(
        [sys.executable, "-m", "whyidle", "tune", "--resume", "s", "-q"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ledger = Ledger(tmp_path / "s")
    trials = ledger.trials
    ledger.close()
    assert {trial.ending for trial in trials} <= {"complete", "pruned", "lost"}
    lost = [trial for trial in trials if trial.ending == "lost"]
    assert lost
    assert {trial.retry_of for trial in trials} >= {trial.number for trial in lost}
    assert len([trial for trial in trials if trial.ending != "lost"]) == 4


def test_a_cluster_that_does_not_answer(tmp_path: Path):
    words = ["tune", "--out", "s", "--engine", "ray", "--space", "x=1,2", "--metric", "loss: {}"]
    done = subprocess.run(
        [sys.executable, "-m", "whyidle", *words, "--", "train.py", "{x}"],
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "No Ray cluster answers" in done.stderr
    assert "ray start --head" in done.stderr


def test_where_the_head_is_killed_the_user_is_told_what_to_do(tmp_path: Path):
    running = start_search(tmp_path)
    await_reports(tmp_path, running)
    heads = members(running.pid, "gcs_server") or [
        child
        for child in psutil.Process(running.pid).children(recursive=True)
        if "gcs_server" in child.name()
    ]
    assert heads
    heads[0].kill()
    assert running.wait(120) == 1
    told = (tmp_path / "log").read_text()
    assert "Ray ended in the middle of the search" in told
    assert f"whyidle tune --resume {tmp_path / 's'}" in told
    assert trial_processes(tmp_path / "s") == []


def test_trials_of_ray_tune_carry_a_verdict_and_their_cost(tmp_path: Path):
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(CALLBACK)
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert len(lines) == 2, done.stderr  # one that ended, one that Ray has ended
    for _, state, *held in lines:
        assert state in ("starved", "inefficient", "saturated", "inconclusive")
        assert held == ["True", "True"]
