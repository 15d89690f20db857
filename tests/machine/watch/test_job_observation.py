"""What a look from outside sees of real processes: their waits, and workers without work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyidle.machine.watch.job_observation import JobObservation
from whyidle.model.live.suspicion import JobView

JOB = """
import fcntl, os, socket, sys, time
kind, path = sys.argv[1:]
for _ in range(8):
    if not os.fork():
        time.sleep(1000)
mine, other = socket.socketpair()
file = open(path, "a")
if kind == "a file lock":
    fcntl.flock(file, fcntl.LOCK_EX)
    if not os.fork():
        time.sleep(1000)
    fcntl.flock(open(path, "a"), fcntl.LOCK_EX)
elif kind == "the network":
    mine.recv(1)
elif kind == "a pipe":
    os.read(os.pipe()[0], 1)
elif kind == "a sleep":
    time.sleep(1000)
"""


def observe(kind: str, folder: Path) -> JobView:
    """Four looks at a job whose first process is said to hold a GPU."""
    command = [sys.executable, "-c", JOB, kind, str(folder / "lock")]
    with subprocess.Popen(command, start_new_session=True) as job:
        seen = JobObservation()
        try:
            time.sleep(1.0)
            for _ in range(4):
                seen.look([job.pid], [job.pid])
                time.sleep(0.2)
            return seen.view([], None, 100.0, None)
        finally:
            seen.close()
            os.killpg(job.pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["a file lock", "the network", "a pipe", "a sleep"])
def test_what_a_job_waits_for(kind: str, tmp_path: Path):
    view = observe(kind, tmp_path)
    assert (view.waits_for, view.waits_share) == (kind, 1.0)
    assert view.workers is not None
    assert view.workers >= 8
    assert (view.workers_busy, view.workers_idle) == (0, view.workers)
