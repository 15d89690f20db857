"""Jobs of several processes, however they are started: their ranks, new starts, and endings."""

import json
import os
import signal
import sys
import time

import pytest

pytest.importorskip("torch.distributed")

pytestmark = pytest.mark.live

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
ENV = {"OMP_NUM_THREADS": "1"}

HEAD = """
import os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train(steps, rank, at=-1, then=None, pause=0.02):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # a store of its own for each start: PyTorch's keeps addresses of the ranks before, and gloo may
    # wait for those
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    place = f"file://{os.path.dirname(os.path.abspath(__file__))}/{os.getppid()}-{start}"
    world = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=world)
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        model(torch.ones(8, 64)).square().mean().backward()
        optimizer.step()
        time.sleep(pause)
        if step == at:
            then()
    os.write(1, f"{rank}: {model.module.bias.sum().item():.6f}\\n".encode())  # in one piece
    dist.destroy_process_group()
"""

RESTARTED = """
def crash():
    if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        CRASH
rank = int(os.environ["RANK"])
train(40, rank, at=14, then=crash)
"""

SPAWNED = """
def main(rank, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    train(30, rank)

if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    torch.multiprocessing.START_processes(main, args=(port,), nprocs=2, start_method="METHOD")
"""

TWICE = """#!/bin/sh
set -e
for _ in 1 2; do "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node=2 "$1"; done
"""


def job(watching, body):
    path = watching.folder / "train.py"
    path.write_text(HEAD + body)
    return path


def notes(diagnosis):
    return diagnosis["coverage"]["notes"]


def test_a_restarted_job_is_one_run_that_tells_who_crashed(watching):
    path = job(watching, RESTARTED.replace("CRASH", "os.kill(os.getpid(), signal.SIGKILL)"))
    done = watching.run(*TORCHRUN, "--max-restarts=1", path, env=ENV)
    assert done.returncode == 0, done.stderr
    assert sorted(line[:2] for line in done.stdout.splitlines()) == ["0:", "1:"]
    diagnosis = watching.diagnosis()
    assert diagnosis["run"]["ranks"] == 2
    assert [row["rank"] for row in diagnosis["detail"]["ranks"]] == [0, 1]
    assert 35 <= diagnosis["steps"]["count"] + diagnosis["steps"]["warmup"] <= 40
    (note,) = [note for note in notes(diagnosis) if "started the ranks" in note]
    assert "2 times; start 1 ended" in note
    assert "rank 1 was killed or crashed" in note
    assert "rank 0" not in note
    assert not [note for note in notes(diagnosis) if "never" in note]


def test_the_rank_whose_exception_ended_the_job_is_named(watching):
    path = job(watching, RESTARTED.replace("CRASH", "raise ValueError('a bad sample')"))
    alone = watching.alone(*TORCHRUN, path, env=ENV)
    done = watching.run(*TORCHRUN, path, env=ENV)
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    (note,) = [note for note in notes(watching.diagnosis()) if "ended by" in note]
    assert note.startswith("rank 1 ended by ValueError: a bad sample after at least")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ranks_that_a_script_starts_itself_are_one_job(watching, method):
    body = SPAWNED.replace("START_processes", "start_processes").replace("METHOD", method)
    path = job(watching, body)
    alone = watching.alone(sys.executable, path, env=ENV)
    done = watching.run(sys.executable, path, env=ENV)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (
        0,
        sorted(alone.stdout.splitlines()),
    ), done.stderr
    diagnosis = watching.diagnosis()
    assert [row["rank"] for row in diagnosis["detail"]["ranks"]] == [0, 1]
    assert not [note for note in notes(diagnosis) if "rank" in note and "killed" in note]


def test_two_launchers_in_one_script_are_two_runs(watching):
    path = job(watching, "train(25, int(os.environ['RANK']))\n")
    script = watching.folder / "both.sh"
    script.write_text(TWICE)
    done = watching.run("sh", script, path, env=ENV)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    found = watching.diagnoses()
    assert [len(each["detail"]["ranks"]) for each in found] == [2, 2]
    assert len({each["run"]["id"] for each in found}) == 2


ENDLESS = "print('ready', flush=True)\ntrain(3000, int(os.environ['RANK']))\n"


def training(watching, path, *, watched):
    """Both ranks train, for a while."""
    words = watching.words(*TORCHRUN, path) if watched else [*TORCHRUN, path]
    child = watching.start(words, env=ENV, start_new_session=True)
    child.stdout.readline()
    until = time.monotonic() + 60
    while watched and time.monotonic() < until and len(facts(watching)) < 2:
        time.sleep(0.05)
    time.sleep(2.0 if watched else 5.0)
    return child


def facts(watching):
    return [int(path.name.split(".")[0]) for path in watching.recording().glob("*.facts.json")]


def gone(pid):
    """Whether a process has ended, soon."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def reported(watching):
    run = watching.recording().parent
    told = watching.alone(*watching.whyidle("report"), run.name, "--json", "-")
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_launcher_and_ranks_as_it_does_without_us(watching, number):
    path = job(watching, ENDLESS)
    statuses = []
    for watched in (False, True):
        with training(watching, path, watched=watched) as child:
            os.killpg(child.pid, number)
            out, _ = child.communicate(timeout=60)
            assert out == "ready\n"
            statuses.append(child.returncode)
    alone, watched = statuses
    assert watched == (128 - alone if alone < 0 else alone)
    assert all(gone(pid) for pid in facts(watching))
    assert len(reported(watching)["detail"]["ranks"]) == 2


def test_what_ranks_did_until_everything_was_killed_is_diagnosed(watching):
    with training(watching, job(watching, ENDLESS), watched=True) as child:
        ranks = facts(watching)
        os.killpg(child.pid, signal.SIGKILL)
        for rank in ranks:  # a launcher gives ranks sessions of their own
            os.kill(rank, signal.SIGKILL)
        child.communicate(timeout=60)
    diagnosis = reported(watching)
    assert diagnosis["run"]["exit_status"] is None
    assert len(diagnosis["detail"]["ranks"]) == 2
    assert diagnosis["steps"]["count"] > 5
