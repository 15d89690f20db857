"""Real trackers in an unmodified job: our figures are there, and its own rows are as without us."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from service_tools import write_job

SECONDS = "14"
"""two looks, five seconds apart, after the first diagnosis"""
MLFLOW = """
import mlflow
def open_tracker():
    mlflow.set_tracking_uri("file:mlruns")
    mlflow.start_run(run_name="own")
def log(opened, step):
    if step < 20: mlflow.log_metric("loss", step * 0.5, step=step)
def close_tracker(opened): mlflow.end_run()
"""
TENSORBOARD = """
from torch.utils.tensorboard import SummaryWriter
def open_tracker(): return SummaryWriter("runs/own")
def log(writer, step):
    if step < 20: writer.add_scalar("loss", step * 0.5, step)
def close_tracker(writer): writer.close()
"""
WANDB = """
import wandb
def open_tracker():
    return wandb.init(mode="offline", settings=wandb.Settings(x_stats_sampling_interval=1))
def log(run, step):
    if step < 20: run.log({"loss": step * 0.5}, step=step)
def close_tracker(run): run.finish()
"""
COMET = """
import comet_ml
def open_tracker(): return comet_ml.OfflineExperiment(offline_directory="comet", workspace="w")
def log(experiment, step):
    if step < 20: experiment.log_metric("loss", step * 0.5, step=step)
def close_tracker(experiment): experiment.end()
"""


def run_job(folder: Path, tracker: str, *options: str) -> None:
    folder.mkdir()
    job = write_job(folder, tracker)
    environ = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", "WANDB_SILENT": "true"}
    command = [sys.executable, "-m", "whyidle", "run", "--quiet", *options, sys.executable]
    done = subprocess.run(
        [*command, str(job), SECONDS], cwd=folder, env=environ, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not published" not in done.stderr


def rows_of_mlflow(folder: Path) -> dict[str, list[tuple[float, int]]]:
    rows = {}
    for path in folder.glob("mlruns/*/*/metrics/**/*"):
        if path.is_file():
            name = str(path).partition("/metrics/")[2]
            lines = [line.split() for line in path.read_text().splitlines()]
            rows[name] = [(float(value), int(step)) for _, value, step in lines]
    return rows


def test_mlflow(tmp_path: Path):
    pytest.importorskip("mlflow")
    run_job(tmp_path / "with", MLFLOW, "--track")
    run_job(tmp_path / "without", MLFLOW)
    tracked, alone = rows_of_mlflow(tmp_path / "with"), rows_of_mlflow(tmp_path / "without")
    assert set(alone) == {"loss"}
    assert tracked["loss"] == alone["loss"]
    assert 0.5 < tracked["whyidle/train/input_share"][-1][0] <= 1
    tags = {path.name: path.read_text() for path in (tmp_path / "with").glob("mlruns/*/*/tags/*")}
    assert tags["whyidle.cause"] == "dataloader-no-workers"


def rows_of_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
        EventAccumulator,
    )

    read = EventAccumulator(str(folder))
    read.Reload()
    return {
        tag: [(row.step, row.value) for row in read.Scalars(tag)] for tag in read.Tags()["scalars"]
    }


def test_tensorboard(tmp_path: Path):
    pytest.importorskip("tensorboard")
    run_job(tmp_path / "with", TENSORBOARD, "--track")
    run_job(tmp_path / "without", TENSORBOARD)
    own = rows_of_tensorboard(tmp_path / "with/runs/own")
    assert own == rows_of_tensorboard(tmp_path / "without/runs/own")
    ours = rows_of_tensorboard(tmp_path / "with/runs/own/whyidle")
    assert 0.5 < ours["whyidle/train/input_share"][-1][1] <= 1
    assert not (tmp_path / "without/runs/own/whyidle").exists()


def test_weights_and_biases_offline(tmp_path: Path):
    pytest.importorskip("wandb")
    run_job(tmp_path / "with", WANDB, "--track")
    run_job(tmp_path / "without", WANDB)
    found = []
    for kind in ("with", "without"):
        (path,) = (tmp_path / kind).glob("wandb/offline-run-*/run-*.wandb")
        content = path.read_bytes()
        found.append((content.count(b"openmetrics.whyidle."), len(re.findall(rb"loss", content))))
    assert found[0][0] > 8
    assert found[1][0] == 0
    assert found[0][1] == found[1][1]


def test_comet_offline(tmp_path: Path):
    pytest.importorskip("comet_ml")
    run_job(tmp_path / "with", COMET, "--track")
    (archive,) = (tmp_path / "with").glob("*.zip")
    done = subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(archive), str(tmp_path / "x")], check=True
    )
    assert done.returncode == 0
    text = (tmp_path / "x" / "messages.json").read_text()
    names = {
        json.loads(line).get("payload", {}).get("metric", {}).get("metricName")
        for line in text.splitlines()
        if line
    }
    assert "whyidle/train/input_share" in names
