"""Jobs with fewer cores than they need, and more threads than they may use."""

import os
import shutil

import pytest

from whyidle.causes.input.cpu_oversubscription import FULL
from whyidle.record.recording_diagnosis import read_telemetry

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed"),
]


def serious(watching, scripts, threads):
    job = [watching.env["PYTHON"], scripts / "dense.py", threads, 64, 6]
    core = str(max(os.sched_getaffinity(0)))
    words = watching.words("taskset", "-c", core, *job)
    assert watching.alone(*words).returncode == 0
    if threads > 1 and used(watching) < FULL:
        pytest.skip("other programs took the core: who crowds it cannot be told")
    return [one for one in watching.diagnosis()["findings"] if one["severity"] != "info"]


def used(watching):
    """Cores' worth of CPU time that the command got in its last seconds."""
    series = read_telemetry(watching.recording()).series
    took = [series[f"job_cpu_{kind}_s"] for kind in ("user", "system")]
    late = took[0].time_ns >= took[0].time_ns[-1] - 4_000_000_000
    spent = sum(one.value[late][-1] - one.value[late][0] for one in took)
    return spent / (float(took[0].time_ns[late][-1] - took[0].time_ns[late][0]) / 1e9)


def test_sixteen_threads_on_one_core_are_the_first_finding(watching, scripts):
    first = serious(watching, scripts, 16)[0]
    assert first["cause"] == "cpu-oversubscription"
    assert "16 threads" in first["headline"]
    assert first["where"][0]["file"].endswith("dense.py")
    assert "set_num_threads(1)" in first["fixes"][0]["summary"]


def test_one_thread_on_one_core_is_not_blamed(watching, scripts):
    assert "cpu-oversubscription" not in [one["cause"] for one in serious(watching, scripts, 1)]


def test_a_crowd_of_processes_without_a_step(watching):
    core = str(max(os.sched_getaffinity(0)))
    loops = "for i in 1 2 3 4; do (timeout 4 sh -c 'while :; do :; done') & done; wait"
    words = watching.words("taskset", "-c", core, "sh", "-c", f"{loops}; true")
    assert watching.alone(*words).returncode == 0
    diagnosis = watching.diagnosis()
    assert diagnosis["verdict"]["state"] == "inconclusive"
    assert diagnosis["findings"][0]["cause"] == "cpu-oversubscription"


STARVED = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Prepared(Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, index):
        total = 0
        for number in range(30000):
            total += number * number % 7
        return torch.full((512,), float(total % 5))

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(2)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + 6
for x in DataLoader(Prepared(), batch_size=8, num_workers=3):
    loss = model(x.repeat(4, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if time.monotonic() > until:
        break
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="no more cores are granted than one")
def test_one_core_of_a_machine_that_has_more_is_the_first_finding(watching):
    """Three workers and the training process share the one core that they may use."""
    path = watching.folder / "train.py"
    path.write_text(STARVED)
    core = str(max(os.sched_getaffinity(0)))
    words = watching.words("taskset", "-c", core, watching.env["PYTHON"], path)
    assert watching.alone(*words).returncode == 0
    first = watching.diagnosis()["findings"][0]
    assert first["cause"] == "cpu-starved-allocation"
    assert first["severity"] != "info"
    told = {one["quantity"]: one["value"] for one in first["evidence"]}
    assert told["cores granted to the job"] == 1.0
    assert told["running or runnable processes of the job"] > 1.25
    assert first["fixes"][0]["predicted"]["high"] > 1.05
