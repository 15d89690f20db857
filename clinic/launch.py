"""Starting one job in a folder of its own, in its turn, and ending it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clinic.card import WORKLOADS, Budget, Case, Mode, Options
from clinic.times import JobError
from clinic.typed import NAME, environment

LOOK_S = 0.05
"""between two looks at a job that runs: so much is lost at its end"""
GIVE_WAY_S = 0.1
"""nobody who waits for a lock is slower to take it"""


_stopping = threading.Event()


class StoppedError(Exception):
    """A job that we ended, because somebody asked for it: nothing is known of it."""


@contextmanager
def scratch(case: Case, mode: Mode = "cpu", first: str = "") -> Iterator[Path]:
    """A folder of its own that holds the script, under the same name as everybody's. What is to be
    done ``first``, as for the emulated device to exist, is in its first line; all keep their
    numbers."""
    folder = Path(tempfile.mkdtemp(prefix="job-"))
    try:
        text = (WORKLOADS / f"{case.workload}.py").read_text(encoding="utf-8")
        first += "import whyidle.testing.emulated; " if mode == "emulated" else ""
        (folder / NAME).write_text(first + text, encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    """Only one timed job at a time, among all who name the same file."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(GIVE_WAY_S)  # who asks again at once gets it before those who wait


def start(
    words: list[str],
    folder: Path,
    options: Options,
    budget: Budget,
    *,
    may_fail: bool = False,
    done: Callable[[], bool] | None = None,
) -> int:
    """Run to the end, or until it is ``done``; nothing of it survives a time-out.

    Raises:
        JobError: it failed.
        StoppedError: it was ended by ``stop``, or had not begun then.
    """
    own = environment(options)
    if _stopping.is_set():
        raise StoppedError
    with (folder / "said.txt").open("wb") as said:
        child = subprocess.Popen(
            [*words, "--times", "times.json"],
            cwd=folder,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = _ended(child, budget.limit_s, done)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if status and not may_fail:
        tail = (folder / "said.txt").read_text("utf-8", "replace").strip()[-600:]
        raise JobError(f"ended with {status}: {tail}")
    return status


def _ended(child: subprocess.Popen[bytes], limit_s: float, done: Callable[[], bool] | None) -> int:
    """Its status; 0 where it is done, though not gone."""
    until = wall() + limit_s
    while wall() < until:
        status = child.poll()
        if status is not None:
            return status
        if _stopping.is_set():
            raise StoppedError
        if done and done():
            return 0
        time.sleep(LOOK_S)
    raise JobError(f"took longer than {limit_s:.0f} s")


@contextmanager
def stoppable() -> Iterator[None]:
    """Whoever leaves early, as by Ctrl-C, ends what was started in here, in whatever thread."""
    _stopping.clear()
    try:
        yield
    except BaseException:
        _stopping.set()
        raise


def wall() -> float:
    """Now, for durations."""
    return time.monotonic()
