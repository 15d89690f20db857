"""`whyidle run`, from the outside: a real training process, unmodified."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

TRAIN = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        time.sleep(DELAY)
        return torch.randn(64), index % 4

DELAY, STEPS = float(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(Slow(), batch_size=4)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item(), flush=True)
    if step + 1 == STEPS:
        break
sys.exit(int(sys.argv[3]))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(TRAIN))
    return path


def watch(tmp_path, *words, **options):
    command = [sys.executable, "-m", "whyidle", "run", "--store", str(tmp_path / "store"), *words]
    return subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, **options
    )


def stored(tmp_path):
    (run,) = (tmp_path / "store" / "runs").iterdir()
    return run, json.loads((run / "diagnosis.json").read_text())


def test_output_and_status_are_the_command_s(tmp_path, script):
    words = [str(script), "0.001", "40", "3"]
    alone = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=False
    )
    watched = watch(tmp_path, *words)
    assert watched.returncode == alone.returncode == 3
    assert watched.stdout == alone.stdout
    assert "STARVED" in watched.stderr
    _, diagnosis = stored(tmp_path)
    assert diagnosis["run"]["exit_status"] == 3
    assert diagnosis["findings"][0]["cause"] == "dataloader-no-workers"
    assert diagnosis["verdict"]["bound"] == "input"
    assert diagnosis["steps"]["detected_by"] == "optimizer"


def test_killed_at_any_moment_the_evidence_is_kept(tmp_path, script):
    command = [sys.executable, "-m", "whyidle", "run", "--store", str(tmp_path / "store")]
    with subprocess.Popen(
        [*command, str(script), "0.002", "4000", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        text=True,
    ) as child:
        for line in child.stdout:
            if line.startswith("30 "):
                break
        time.sleep(0.5)
        recording = next((tmp_path / "store" / "runs").iterdir()) / "recording"
        (facts,) = recording.glob("*.facts.json")
        os.kill(int(facts.name.split(".")[0]), signal.SIGKILL)
        child.stdout.close()
        assert child.wait(timeout=60) == 128 + signal.SIGKILL
    _, diagnosis = stored(tmp_path)
    assert diagnosis["run"]["exit_status"] == 137
    assert diagnosis["verdict"]["bound"] == "input"


def test_the_host_is_read_meanwhile_and_what_that_cost_is_told(tmp_path, script):
    done = watch(tmp_path, "--interval", "0.1", str(script), "0.001", "150", "0")
    assert done.returncode == 0
    run, diagnosis = stored(tmp_path)
    assert "host_telemetry" in diagnosis["coverage"]["signals"]
    assert 0 < diagnosis["coverage"]["overhead_ratio"] < 0.1
    lines = (run / "recording" / "telemetry.jsonl").read_text().splitlines()
    assert sum("job_cpu_user_s" in line for line in lines) >= 1
    assert sum(line.startswith("[") for line in lines) >= 3
