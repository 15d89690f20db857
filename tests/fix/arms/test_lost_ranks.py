"""Jobs of two ranks in an arm: all of them are heard, and none can keep it waiting."""

import socket
import sys
import time

import pytest
from own_sgd import OWN_SGD
from unguarded import Open

from whyidle.fix.arms import arm
from whyidle.fix.arms.arm import ArmRequest, by_rank, run_arm
from whyidle.fix.arms.process_report import ProcessReport

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("ranks wait for each other by the clock")

TRAIN = f"""
import os, signal, sys, time
{OWN_SGD}
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = SGD(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(rank)
for step in range(100_000):
    if step == 20 and "dies" in sys.argv:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)  # as in an exchange that waits for ever
    if step == 20 and rank == 1 and "fails" in sys.argv:
        raise ValueError("no")
    loss = model(torch.randn(2, 4, generator=data)).square().mean()
    loss.backward()
    for each in model.parameters():
        dist.all_reduce(each.grad)
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.002 * (1 + rank))
"""

BOTH = """
import os, subprocess, sys
place = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]}
words = [sys.executable, *sys.argv[2:]]
ranks = [subprocess.Popen(words, env={**place, "RANK": rank}) for rank in "01"]
sys.exit(max(abs(rank.wait()) for rank in ranks))
"""
"""a launcher that looks at nothing"""


SPAWNED = f"""
import os, sys
{OWN_SGD}
import torch.distributed as dist

def main(rank, port):
    place = f"tcp://127.0.0.1:{{port}}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = SGD(model.parameters(), lr=0.01)
    for step in range(15):
        model(torch.randn(2, 4)).square().mean().backward()
        for each in model.parameters():
            dist.all_reduce(each.grad)
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(main, (sys.argv[1],), nprocs=2)
"""


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def torchrun(*words):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return [sys.executable, *launch, *map(str, words)]


@pytest.mark.services
def test_all_ranks_end_after_the_same_step_and_tell(train):
    found = run_arm(
        torchrun(train), ArmRequest(steps=30, seconds=0.3), train.parent / "arm", Open()
    )
    assert found.ending == "stopped"
    assert found.lost == []
    one, other = found.ranks[0], found.ranks[1]
    assert len(one.marks) == len(other.marks) >= 30
    assert one.losses != other.losses  # each has data of its own
    assert one.norm == other.norm is not None  # and they have one model
    assert found.report == one
    most = max(sample.own for sample in found.samples)  # the last ones may be of the end
    assert most > 50 << 20  # three interpreters with PyTorch


@pytest.mark.services
def test_a_rank_that_fails_ends_the_arm_where_a_launcher_looks(train):
    begun = time.monotonic()
    asked = ArmRequest(steps=1000, patience_s=100.0)
    found = run_arm(torchrun(train, "fails"), asked, train.parent / "arm", Open())
    assert found.ending == "crashed"
    assert time.monotonic() - begun < 60.0
    assert "ValueError: no" in (train.parent / "arm" / "said.txt").read_text()


def test_a_rank_that_dies_ends_the_arm_where_nobody_looks(train, monkeypatch, unused_port):
    monkeypatch.setattr(arm, "LOST_S", 1.0)
    launcher = train.with_name("both.py")
    launcher.write_text(BOTH)
    begun = time.monotonic()
    found = run_arm(
        [sys.executable, str(launcher), str(unused_port), str(train), "dies"],
        ArmRequest(steps=1000, patience_s=100.0),
        train.parent / "arm",
        Open(),
    )
    assert found.ending == "crashed"
    assert found.lost == [1]
    assert time.monotonic() - begun < 60.0


def test_ranks_that_a_script_spawns_are_heard_when_they_end(tmp_path, unused_port):
    path = tmp_path / "spawns.py"
    path.write_text(SPAWNED)
    asked = ArmRequest(steps=1000)
    found = run_arm([sys.executable, str(path), str(unused_port)], asked, tmp_path / "arm", Open())
    assert found.ending == "finished"
    assert [len(told.marks) for told in found.ranks.values()] == [15, 15]
    assert found.lost == []


@pytest.fixture
def unused_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def told(rank, steps):
    return ProcessReport(ended="stopped", begun=0, marks=list(range(steps)), losses=[], rank=rank)


def test_of_a_rank_that_was_started_again_the_longest_counts():
    found = by_rank([told(1, 5), told(0, 9), told(1, 20), told(None, 99)])
    assert {rank: len(one.marks) for rank, one in found.items()} == {0: 9, 1: 20}
    assert len(by_rank([told(None, 3), told(None, 7)])[0].marks) == 7
    assert by_rank([]) == {}
