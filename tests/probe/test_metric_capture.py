"""Metrics of a search, as jobs log them: in processes that start as a trial does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from whyidle.record.launcher import BOOT

TRACKER = """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None):
        return "own result"
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None):
        pass
"""
JOB = """
from tensorboardX.writer import SummaryWriter
writer = SummaryWriter()
assert writer.add_scalar("val/loss", 0.5, 3) == "own result"
writer.add_scalar(tag="val/loss", scalar_value="0.25", global_step=4)
writer.add_scalar("other", 9.0, 4)
writer.add_scalars("val", {"loss": 0.125, "acc": 1}, 6)
writer.add_scalar("val/loss", "no number")
import whyidle
whyidle.report({"val/loss": 1}, step=5)
whyidle.report(other=2)
"""


def run_job(tmp_path: Path, **variables: str) -> list[dict[str, object]]:
    (tmp_path / "tensorboardX").mkdir()
    (tmp_path / "tensorboardX" / "__init__.py").write_text("")
    (tmp_path / "tensorboardX" / "writer.py").write_text(TRACKER)
    (tmp_path / "job.py").write_text(JOB)
    path = tmp_path / "reported.jsonl"
    environ = {**os.environ, "PYTHONPATH": str(BOOT), "WHYIDLE_RUN": str(tmp_path), **variables}
    environ |= {"WHYIDLE_METRICS": str(path)} if variables else {}
    subprocess.run([sys.executable, "job.py"], cwd=tmp_path, env=environ, check=True)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_values_of_the_wanted_name_are_noted(tmp_path: Path):
    assert run_job(tmp_path, WHYIDLE_METRIC_NAME="val/loss") == [
        {"by": "tensorboard", "name": "val/loss", "value": 0.5, "step": 3},
        {"by": "tensorboard", "name": "val/loss", "value": 0.25, "step": 4},
        {"by": "tensorboard", "name": "val/loss", "value": 0.125, "step": 6},
        {"by": "report", "name": "val/loss", "value": 1.0, "step": 5},
        {"by": "report", "name": "other", "value": 2.0, "step": None},
    ]


def test_outside_of_a_search_nothing_is_written(tmp_path: Path):
    assert run_job(tmp_path) == []
