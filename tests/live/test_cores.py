"""Jobs with fewer cores than they need, and more threads than they may use."""

import os
import shutil

import pytest

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed"),
]

JOB = """
import sys, time
import torch
torch.set_num_threads(int(sys.argv[1]))
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 512)
until = time.monotonic() + 6
while time.monotonic() < until:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def serious(watching, threads):
    path = watching.folder / "train.py"
    path.write_text(JOB)
    core = str(max(os.sched_getaffinity(0)))
    words = watching.words("taskset", "-c", core, watching.env["PYTHON"], path, threads)
    assert watching.alone(*words).returncode == 0
    return [one for one in watching.diagnosis()["findings"] if one["severity"] != "info"]


def test_sixteen_threads_on_one_core_are_the_first_finding(watching):
    first = serious(watching, 16)[0]
    assert first["cause"] == "cpu-oversubscription"
    assert "16 threads" in first["headline"]
    assert first["where"][0]["file"].endswith("train.py")
    assert "set_num_threads(1)" in first["prescriptions"][0]["summary"]


def test_one_thread_on_one_core_is_not_blamed(watching):
    assert "cpu-oversubscription" not in [one["cause"] for one in serious(watching, 1)]


def test_a_crowd_of_processes_without_a_step(watching):
    core = str(max(os.sched_getaffinity(0)))
    loops = "for i in 1 2 3 4; do (timeout 4 sh -c 'while :; do :; done') & done; wait"
    words = watching.words("taskset", "-c", core, "sh", "-c", f"{loops}; true")
    assert watching.alone(*words).returncode == 0
    diagnosis = watching.diagnosis()
    assert diagnosis["verdict"]["state"] == "inconclusive"
    assert diagnosis["findings"][0]["cause"] == "cpu-oversubscription"
