"""Real trackers in an unmodified job: our figures are there, and its own rows are as without us."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
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


def own_lines(folder: Path, pattern: str) -> dict[str, list[str]]:
    """The lines of the job's own metric files, but for the times at their beginning."""
    files = (
        path for path in folder.glob(pattern) if "whyidle" not in str(path.relative_to(folder))
    )
    return {
        path.name: [line.partition(" ")[2] for line in path.read_text().splitlines()]
        for path in files
        if path.is_file()
    }


def own_events(folder: Path) -> list[bytes]:
    """The records of the job's own event file, byte by byte, but for their wall times."""
    from tensorboard.backend.event_processing.event_file_loader import (  # noqa: PLC0415
        LegacyEventFileLoader,
    )

    (path,) = folder.glob("events.out.*")
    events = list(LegacyEventFileLoader(str(path)).Load())
    for event in events:
        event.ClearField("wall_time")
    return [event.SerializeToString(deterministic=True) for event in events]


def wandb_records(path: Path) -> Iterator[bytes]:
    """The records of W&B's file: LevelDB's log format, after a header of seven bytes."""
    content, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768  # no record begins in the last bytes of a block
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def own_history(folder: Path) -> list[dict[str, str]]:
    """The history rows of W&B's own file, as JSON texts by key, but for times."""
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    rows = []
    for data in wandb_records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            named = {(i.key or ".".join(i.nested_key)): i.value_json for i in items}
            rows.append({k: v for k, v in named.items() if k not in ("_runtime", "_timestamp")})
    return rows


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
    own = "mlruns/*/*/metrics/**/*"
    assert own_lines(tmp_path / "with", own) == own_lines(tmp_path / "without", own)
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
    own = own_events(tmp_path / "with/runs/own")
    assert len(own) == 21  # the version, and twenty losses
    assert own == own_events(tmp_path / "without/runs/own")
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
    rows = own_history(tmp_path / "with")
    assert len(rows) == 20
    assert rows == own_history(tmp_path / "without")
