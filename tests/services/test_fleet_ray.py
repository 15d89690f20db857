"""A real local Ray: a task and an actor that hold GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SCRIPT = """
import json, time
import msgspec, ray
from whyidle.cluster.ledgers import ray as ledger
from whyidle.model.fleet_rows import Window
from fleet_contracts import check_ledger

context = ray.init(num_cpus=2, num_gpus=2, include_dashboard=True, log_to_driver=False)

@ray.remote(num_gpus=1)
def work():
    time.sleep(1)

@ray.remote(num_gpus=0.5)
class Worker:
    def ping(self):
        return 1

worker = Worker.remote()
ray.get([worker.ping.remote(), work.remote()])
window = Window(0, 4_000_000_000_000)
until = time.monotonic() + 30
while True:
    rows = check_ledger(ledger, "http://" + context.dashboard_url, window)
    if len(rows.holdings) == 2 or time.monotonic() > until:
        break
    time.sleep(0.5)
print("ROWS", msgspec.json.encode([rows.holdings, rows.nodes]).decode())
ray.shutdown()
"""


def test_a_task_and_an_actor_hold_gpus():
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(TESTS)},
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    holdings, nodes = json.loads(done.stdout.rpartition("ROWS ")[2])
    assert sorted((h["gpus"], h["milli"], h["shared"]) for h in holdings) == [
        (1, 500, True), (1, 1000, False),
    ]  # fmt: skip
    assert [node["gpus"] for node in nodes] == [2]
