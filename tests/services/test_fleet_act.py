"""`whyidle fleet act` on a real Slurm: only the job that the policy means is ended, and only with
consent and telemetry."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from service_tools import free_port, need, wait_until
from slurm_conf import start_slurm, stop_slurm

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="munge and slurmd need root")
IDLE_S = 4
NODE = socket.gethostname().partition(".")[0]


def submit(env: dict[str, str], name: str, gpus: int) -> str:
    words = ["sbatch", "--parsable", f"--gres=gpu:{gpus}", f"--job-name={name}", "--mem=10"]
    done = subprocess.run(
        [*words, "--output=/dev/null", "--wrap=sleep 300"],
        env=env, check=True, capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    return done.stdout.strip()


def queue(env: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(
        ["squeue", "-h", "-o", "%A|%T"], env=env, check=True, capture_output=True, text=True,
        timeout=20,
    )  # fmt: skip
    return dict(line.split("|") for line in done.stdout.split())


def write_readings(place: Path, busy: dict[str, float], seconds: int, until: float) -> None:
    """Readings of each job's GPU, one a second, until so many seconds ago."""
    end = datetime.now(timezone.utc) - timedelta(seconds=until)
    lines = ["time,node,gpu,job,busy,memory_bytes"]
    for second in range(seconds, -1, -1):
        moment = (end - timedelta(seconds=second)).isoformat(timespec="seconds")
        for number, (job, share) in enumerate(busy.items()):
            lines.append(f"{moment},{NODE},{number},{job},{share},40e9")
    place.write_text("\n".join(lines))


def act(tmp_path: Path, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    words = ["fleet", "act", "--ledger", "slurm", "--meter", f"csv:{tmp_path}/readings.csv"]
    places = ["--policy", f"{tmp_path}/policy.toml", "--log", f"{tmp_path}/log"]
    return subprocess.run(
        [sys.executable, "-m", "whyidle", *words, "--since", "1h", *places,
         "--cache", str(tmp_path / str(time.time_ns())), *options],
        env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_exactly_the_idle_job_is_cancelled(tmp_path: Path):
    need("slurmctld", "slurmd", "munged", "sbatch", "sacct", "slurmdbd", "mariadbd")
    (tmp_path / "policy.toml").write_text(
        "enforce = true\nleast_coverage = 0.5\nstale_s = 30\n"
        f'[[rule]]\naction = "cancel"\nidle_s = {IDLE_S}\nwarnings = 0\n'
    )
    try:
        env = start_slurm(tmp_path, free_port(), free_port(), free_port())
        idle, busy = submit(env, "idle", 1), submit(env, "busy", 1)
        wait_until(lambda: list(queue(env).values()) == ["RUNNING"] * 2, 60)
        began = time.monotonic()
        time.sleep(3 * IDLE_S)
        before = queue(env)
        seen = {idle: 0.0, busy: 0.9}

        write_readings(tmp_path / "readings.csv", seen, int(time.monotonic() - began), 0)
        dry = act(tmp_path, env)
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert f"scancel {idle}" in dry.stdout
        assert f"scancel {busy}" not in dry.stdout
        assert queue(env) == before

        write_readings(tmp_path / "readings.csv", seen, 60, 300)
        blind = act(tmp_path, env, "--yes")
        assert blind.returncode == 1, blind.stdout + blind.stderr
        assert "No action is taken" in blind.stdout
        assert queue(env) == before

        write_readings(tmp_path / "readings.csv", seen, int(time.monotonic() - began), 0)
        done = act(tmp_path, env, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: idle not in queue(env), 60)
        assert queue(env) == {busy: "RUNNING"}
        assert (tmp_path / "log").read_text().count('"cancel"') == 2  # planned, done
    finally:
        stop_slurm(tmp_path)
