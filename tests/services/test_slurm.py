"""A real Slurm: an allocation without a process on its GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from service_tools import free_port, need, wait_until, write_cards
from slurm_conf import start_slurm, stop_slurm


@pytest.mark.skipif(os.geteuid() != 0, reason="munge and slurmd need root")
def test_an_allocation_that_nobody_uses(tmp_path: Path, start):
    need("slurmctld", "slurmd", "munged", "srun")
    cards = write_cards(tmp_path, {}, {}, {}, {})
    try:
        slurm = start_slurm(tmp_path, free_port(), free_port())
        start("srun", "--gres=gpu:2", "--job-name=held", "sleep", "60", env=slurm)

        def is_running() -> bool:
            shown = ["squeue", "--noheader", "--states=RUNNING"]
            done = subprocess.run(shown, env=slurm, capture_output=True, timeout=10, check=False)
            return b"held" in done.stdout

        wait_until(is_running, 20)
        done = subprocess.run(
            [sys.executable, "-m", "whyidle", "watch", "--once", "--json"],
            env={**cards, "SLURM_CONF": slurm["SLURM_CONF"]},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    finally:
        stop_slurm(tmp_path)
    document = json.loads(done.stdout)
    states = [gpu["state"] for gpu in document["gpus"]]
    assert states == ["idle-reserved", "idle-reserved", "free", "free"]
    job = next(job for job in document["jobs"] if job["key"].startswith("slurm:"))
    assert job["user"] == "root"
    assert job["tenant"]["labels"]["name"] == "held"
    assert job["gpus"] == ["GPU-0", "GPU-1"]
