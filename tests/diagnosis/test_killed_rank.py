"""`whyidle run` of two ranks, one of which is killed: it is named."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.live

TRAIN = """
import os, signal, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    time.sleep(0.03)
    loss = model(torch.randn(32, 256)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 1 and step == 40:
        os.kill(os.getpid(), signal.SIGKILL)
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def test_a_killed_rank_is_named(tmp_path):
    pytest.importorskip("torch.distributed")
    script, told = tmp_path / "train.py", tmp_path / "why.json"
    script.write_text(TRAIN)
    ours = ("-m", "whyidle", "run", "--store", str(tmp_path / "store"), "--json", str(told))
    done = subprocess.run(
        [sys.executable, *ours, sys.executable, *TORCHRUN, str(script)],
        cwd=tmp_path, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    notes = json.loads(told.read_text())["coverage"]["notes"]
    (note,) = [note for note in notes if "rank 1 was killed" in note]
    assert "optimizer steps" in note
