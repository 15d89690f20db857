"""Real processes that make no progress: the right place, and the right word for the wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from whyidle.errors import MissingExtraError
from whyidle.machine.attachment.attach import attach_to
from whyidle.machine.attachment.stack_look import find_pyspy
from whyidle.machine.attachment.target_process import find_target
from whyidle.model.diagnosis import Diagnosis

pytestmark = pytest.mark.real_processes("a real process is looked at for seconds")

DEADLOCK = """
import threading, time
data, index = threading.Lock(), threading.Lock()
def refill():
    with index:
        time.sleep(0.3)
        with data:  # refill waits
            pass
threading.Thread(target=refill, name="refill").start()
with data:
    time.sleep(0.3)
    with index:  # main waits
        pass
"""
WORKER = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        if index >= 16:
            open("stuck", "w").close()
            time.sleep(1000)  # stuck
        return torch.ones(4)
model = torch.nn.Linear(4, 4)
for x in DataLoader(Numbers(), batch_size=2, num_workers=2):  # main waits
    model(x).sum().backward()
"""
RANK = """
import os, sys, time, torch
import torch.distributed as dist
rank, meeting = int(os.environ["RANK"]), "file://" + sys.argv[1]
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=3)
x = torch.ones(4)
for step in range(100):
    if step == 20 and rank == 1:
        open("stuck", "w").close()
        time.sleep(1000)  # late
    dist.all_reduce(x)  # waits
"""
STORAGE = """
import sys
def load(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)  # waits
while True:
    x = load(sys.argv[1])
"""
LOCKED = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)  # waits
    print("got it", flush=True)
    if len(sys.argv) > 2:
        import time
        time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def pyspy() -> None:
    try:
        find_pyspy()
    except MissingExtraError as error:
        pytest.skip(str(error))


@contextmanager
def running(
    path: Path, text: str, *words: str, **environ: str
) -> Iterator[subprocess.Popen[bytes]]:
    path.write_text(text)
    command = [sys.executable, str(path), *words]
    with subprocess.Popen(command, cwd=path.parent, env={**os.environ, **environ}) as job:
        try:
            yield job
        finally:
            for child in find_target(job.pid).children if job.poll() is None else ():
                os.kill(child, 9)
            job.kill()


def line(text: str, mark: str) -> str:
    return f"job.py:{next(n for n, row in enumerate(text.splitlines(), 1) if mark in row)} "


def look(pid: int, stuck: Path | None = None) -> Diagnosis:
    """A look at a process, after its last start of anything; ``stuck`` appears soon before."""
    until = time.monotonic() + 60
    while stuck and not stuck.exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)
    diagnosis = attach_to(find_target(pid), 3)
    assert diagnosis.verdict.state == "inconclusive"
    assert not diagnosis.findings  # and so no gain
    assert "nothing moved" in diagnosis.verdict.headline
    return diagnosis


def test_each_thread_of_a_deadlock_has_its_line(tmp_path: Path):
    with running(tmp_path / "job.py", DEADLOCK) as job:
        diagnosis = look(job.pid)
    place = f"at {line(DEADLOCK, '# main waits')}in <module> for a lock"
    assert place in diagnosis.verdict.headline
    place = f"at {line(DEADLOCK, '# refill waits')}in refill for a lock"
    assert any(place in note for note in diagnosis.coverage.notes)


def test_stuck_worker(tmp_path: Path):
    pytest.importorskip("torch")
    with running(tmp_path / "job.py", WORKER) as job:
        diagnosis = look(job.pid, tmp_path / "stuck")
        workers = find_target(job.pid).children
    said = diagnosis.verdict.headline
    assert f"at {line(WORKER, '# main waits')}in <module> for its loader's workers" in said
    assert f"sleeps at {line(WORKER, '# stuck')}in __getitem__" in said
    assert any(f"workers: process {pid} sleeps" in said for pid in workers)


def test_stuck_rank(tmp_path: Path):
    pytest.importorskip("torch")
    with ExitStack() as jobs:
        ranks = [
            jobs.enter_context(
                running(tmp_path / "job.py", RANK, str(tmp_path / "met"), RANK=str(rank))
            )
            for rank in range(3)
        ]
        said = look(ranks[0].pid, tmp_path / "stuck").verdict.headline
    late = f"rank 1 (process {ranks[1].pid}) did not arrive: it sleeps at {line(RANK, '# late')}"
    assert late in said
    waiting = f"rank 0 (process {ranks[0].pid}), rank 2 (process {ranks[2].pid}) waits at "
    assert f"{waiting}{line(RANK, '# waits')}in <module> for a collective" in said


def test_sleeping_storage(tmp_path: Path):
    os.mkfifo(tmp_path / "data")
    with running(tmp_path / "job.py", STORAGE, str(tmp_path / "data")) as job:
        writer = os.open(tmp_path / "data", os.O_WRONLY)
        try:
            said = look(job.pid).verdict.headline
        finally:
            os.close(writer)
    assert f"waits at {line(STORAGE, '# waits')}in load for a pipe" in said


def test_file_lock(tmp_path: Path):
    lock = str(tmp_path / "data.lock")
    with running(tmp_path / "job.py", LOCKED, lock, "keep"):
        time.sleep(1)
        with running(tmp_path / "job.py", LOCKED, lock) as job:
            said = look(job.pid).verdict.headline
    assert f"waits at {line(LOCKED, '# waits')}in <module> for a file lock" in said
