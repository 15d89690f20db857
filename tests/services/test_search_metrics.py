"""`whyidle tune` reads what a script logs with real libraries."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("optuna")

SCRIPT = """
import json, sys
by = sys.argv[1]
values = [0.5, 0.25, 0.125]
if by == "json":
    for step, value in enumerate(values):
        print(json.dumps({"epoch": step, "val/loss": value}))
elif by == "report":
    import whyidle
    for step, value in enumerate(values):
        whyidle.report({"val/loss": value}, step=step)
elif by == "tensorboard":
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter("runs")
    for step, value in enumerate(values):
        writer.add_scalar("val/loss", value, step)
elif by == "wandb":
    import wandb
    run = wandb.init(mode="offline")
    for step, value in enumerate(values):
        wandb.log({"val/loss": value, "other": 1.0}, step=step)
    run.finish()
else:
    import mlflow
    mlflow.set_tracking_uri("sqlite:///mlflow.db" if by == "mlflow-sqlite" else "file:mlruns")
    with mlflow.start_run():
        for step, value in enumerate(values):
            if step:
                mlflow.log_metric("val/loss", value, step=step)
            else:
                mlflow.log_metrics({"val/loss": value, "other": 1.0}, step=step)
"""
NEEDS = {
    "json": (),
    "report": (),
    "tensorboard": ("tensorboard", "torch"),
    "wandb": ("wandb",),
    "mlflow-file": ("mlflow",),
    "mlflow-sqlite": ("mlflow", "sqlalchemy", "alembic"),
}


def test_every_way_to_log_is_read(tmp_path: Path):
    ways = [way for way, names in NEEDS.items() if all(map(importlib.util.find_spec, names))]
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["tune", "--out", "s", "--space", f"by={','.join(ways)}"]
    words += ["--metric", "val/loss", "--sampler", "grid", "--prune", "none", "--parallel", "1"]
    environ = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", "WANDB_SILENT": "true"}
    done = subprocess.run(
        [sys.executable, "-m", "whyidle", *words, "--json", "-", "--",
         sys.executable, "train.py", "{by}"],
        cwd=tmp_path, env=environ, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)["trials"]
    for trial in trials:
        assert [r["value"] for r in trial["reports"]] == [0.5, 0.25, 0.125], trial
        assert [r["step"] for r in trial["reports"]] == [0, 1, 2], trial
    assert len(trials) == len(ways) >= 2
