"""A real recording, made here by PyTorch on the CPU, from the profiler to the report."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.__main__ import main

pytestmark = [
    pytest.mark.real_processes("a job is recorded while the machine does other things"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
    ),
]

SCRIPT = """
import sys, time
import torch
from torch.profiler import ProfilerActivity, profile, schedule

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 36
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((64,), float(index))

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(Slow(), batch_size=4)
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=6),
             on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1])) as prof:
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        prof.step()
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that sleeps 40 ms for each batch, and computes for less than a millisecond."""
    path = tmp_path_factory.mktemp("recorded") / "trace.json"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return path


def test_the_planted_cause_is_found(recording: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(recording), "--no-store", "--json", "-"]) == 0
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["device"]["kind"] == "cpu"
    assert diagnosis["attribution"]["input"] > 0.8
    assert diagnosis["verdict"]["bound"] == "input"
    assert diagnosis["findings"][0]["cause"] == "dataloader-no-workers"
    assert 0.040 < diagnosis["steps"]["mean_s"] < 0.2
