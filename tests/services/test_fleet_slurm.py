"""A real Slurm with slurmdbd, thirty jobs, and a real Prometheus with their history."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from service_tools import free_port, need, wait_until
from slurm_conf import start_slurm, stop_slurm

NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "sacct")
PERIOD_S = 1
GIB = 1 << 30


def fleet(
    *arguments: str, env: dict[str, str], action: tuple[str, ...] = ("report",)
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "whyidle", "fleet", *action, *arguments],
        env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="munge and slurmd need root")
def test_without_slurmdbd_it_says_what_to_switch_on(tmp_path: Path):
    need(*NEEDED)
    try:
        env = start_slurm(tmp_path, free_port(), free_port())
        done = fleet("--ledger", "slurm", "--cache", str(tmp_path / "cache"), env=env)
    finally:
        stop_slurm(tmp_path)
    assert done.returncode == 1
    assert "AccountingStorageType=accounting_storage/slurmdbd" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="munge and slurmd need root")
def test_thirty_jobs_with_planted_waste(tmp_path: Path, start):
    """Every third job is busy 60 %, every third idle with memory held, every third without
    telemetry; each fifth job fails."""
    need(*NEEDED, "slurmdbd", "mariadbd", "prometheus", "promtool")
    try:
        env = start_slurm(tmp_path, free_port(), free_port(), free_port())
        for number in range(30):
            end = "exit 1" if number % 5 == 4 else "exit 0"
            subprocess.run(
                [
                    *("sbatch", f"--gres=gpu:{1 + number % 2}", f"--job-name=job{number}"),
                    *("--mem=10", "--output=/dev/null", f"--wrap=sleep {1 + number % 3}; {end}"),
                ],
                env=env, check=True, capture_output=True, timeout=20,
            )  # fmt: skip

        def accounted() -> list[list[str]]:
            command = ["sacct", "-aXPn", "--format=JobIDRaw,JobName,State,Start,End"]
            text = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=20, check=True
            ).stdout
            rows = [line.split("|") for line in text.splitlines()]
            return [row for row in rows if row[2] in ("COMPLETED", "FAILED")]

        wait_until(lambda: len(accounted()) == 30, 90)
        jobs = accounted()
        server = serve_history(tmp_path, start, jobs)
        check_one_job(tmp_path, next(job for job in jobs if job[1] == "job1"), server, env)
        done = fleet(
            *("--ledger", "slurm", "--meter", f"prometheus:{server}?step={PERIOD_S}"),
            *("--since", "1h", "--cache", str(tmp_path / "cache"), "--json", "-"),
            env=env,
        )
    finally:
        stop_slurm(tmp_path)
    assert done.returncode == 0, done.stderr
    check_truth(json.loads(done.stdout), jobs)


def check_one_job(folder: Path, job: list[str], server: str, env: dict[str, str]) -> None:
    """The page of one job."""
    done = fleet(
        *("--meter", f"prometheus:{server}?step={PERIOD_S}", "--cache", str(folder / "cache")),
        *("--json", "-"),
        env=env,
        action=("job", job[0]),
    )
    assert done.returncode == 0, done.stderr
    page = json.loads(done.stdout)
    assert page["job"]["gpus"] == 2
    assert page["job"]["host_memory_bytes"] == 10 << 20
    assert page["job"]["host_memory_used_bytes"] > 0
    assert page["next_time"] == ["no GPU (all read 0 % busy in every sample)"]


def seconds(text: str) -> int:
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))


def serve_history(folder: Path, start, jobs: list[list[str]]) -> str:
    """Back-fill what a labelled exporter would have recorded; the address of the server."""
    host = socket.gethostname().partition(".")[0]
    lines = []
    for metric in ("whyidle_gpu_busy_ratio", "whyidle_gpu_memory_used_bytes"):
        lines.append(f"# TYPE {metric} gauge")
        for job, name, _, begin, end in jobs:
            number = int(name.removeprefix("job"))
            if number % 3 == 2:
                continue
            busy = 0.6 if number % 3 == 0 else 0.0
            value = busy if metric.endswith("ratio") else 10 * GIB
            for gpu in range(1 + number % 2):
                labels = f'gpu="{job}{gpu}",Hostname="{host}",slurm_job="{job}"'
                lines += [
                    f"{metric}{{{labels}}} {value} {moment}"
                    for moment in range(seconds(begin) + 1, seconds(end) + 1)
                ]
    (folder / "history.om").write_text("\n".join([*lines, "# EOF\n"]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "history.om", "tsdb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    (folder / "prometheus.yml").write_text("global: {}\n")
    port = free_port()
    start(
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    )  # fmt: skip
    return f"http://127.0.0.1:{port}"


def check_truth(document: dict, jobs: list[list[str]]) -> None:
    truth = dict.fromkeys(("useful", "starved", "idle-held", "failed", "unknown"), 0.0)
    for _, name, state, begin, end in jobs:
        number = int(name.removeprefix("job"))
        allocated = (seconds(end) - seconds(begin)) * 1000 * (1 + number % 2)
        if state == "FAILED":
            truth["failed"] += allocated
        elif number % 3 == 0:
            truth["useful"] += 0.6 * allocated
            truth["starved"] += 0.4 * allocated
        else:
            truth["idle-held" if number % 3 == 1 else "unknown"] += allocated
    total = document["total"]
    assert sum(total["gpu_ms"].values()) == total["allocated_gpu_ms"] == sum(truth.values())
    for state, expected in truth.items():
        assert total["gpu_ms"][state] == pytest.approx(expected, rel=0.01), state
    assert document["job_count"] == 30
    dark = [row for row in document["jobs"] if int(row["name"].removeprefix("job")) % 3 == 2]
    for row in dark:
        assert row["coverage"] == 0
        assert row["account"]["gpu_ms"]["idle-held"] == 0
