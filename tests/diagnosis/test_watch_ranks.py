"""`whyidle run` of several ranks: one diagnosis, who waits for whom, who did not stay."""

import json
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.live

TRAIN = """
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

mode = sys.argv[1]
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
rank = dist.get_rank()
layers = [torch.nn.Linear(256, 256) for _ in range(6)]
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    if mode != "micro" and rank == 1:
        time.sleep(0.03)
    for _ in range(4 if mode == "micro" else 1):
        loss = model(torch.randn(32, 256)).square().mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if mode == "dies" and rank == 1 and step == 40:
        os.kill(os.getpid(), signal.SIGKILL)
total = torch.ones(1)
dist.all_reduce(total)
print(int(total.item()))
dist.destroy_process_group()
"""

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def watch(tmp_path, mode):
    pytest.importorskip("torch.distributed")
    script, told = tmp_path / "train.py", tmp_path / "why.json"
    script.write_text(textwrap.dedent(TRAIN))
    ours = ("-m", "whyidle", "run", "--store", str(tmp_path / "store"), "--json", str(told))
    done = subprocess.run(
        [sys.executable, *ours, sys.executable, *TORCHRUN, str(script), mode],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done, json.loads(told.read_text())


def test_a_sleeping_rank_is_named_in_one_diagnosis(tmp_path):
    done, diagnosis = watch(tmp_path, "late")
    assert done.returncode == 0
    assert done.stdout.split() == ["2", "2"]
    assert diagnosis["run"]["ranks"] == 2
    assert len(diagnosis["detail"]["ranks"]) == 2
    causes = [finding["cause"] for finding in diagnosis["findings"]]
    assert "late-rank" in causes[:2]  # beside the blocking call that makes it late
    where = diagnosis["findings"][causes.index("late-rank")]["where"][0]
    assert where["rank"] == diagnosis["findings"][0]["where"][0]["rank"] == 1
    assert where["file"].endswith("train.py")
    late = {row["rank"]: row["lateness_s"] for row in diagnosis["detail"]["ranks"]}
    assert late[1] > 0.01 > late[0]


def test_exchanges_after_every_micro_batch(tmp_path):
    done, diagnosis = watch(tmp_path, "micro")
    assert done.returncode == 0
    assert diagnosis["verdict"]["bound"] == "communication"
    found = {finding["cause"]: finding for finding in diagnosis["findings"]}
    evidence = found["allreduce-every-microstep"]["evidence"][0]
    assert evidence["value"] == 4


def test_a_killed_rank_is_named(tmp_path):
    done, diagnosis = watch(tmp_path, "dies")
    assert done.returncode != 0
    (note,) = [note for note in diagnosis["coverage"]["notes"] if "rank 1 was killed" in note]
    assert "optimizer steps" in note
