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
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from clinic.card import WORKLOADS, Budget, Case, Mode, Options
from clinic.times import JobError
from clinic.typed import NAME, environment
from clinic.warmed import warm as become

LOOK_S = 0.05
"""between two observes a running job: so much is lost at its end"""
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
        first += "import emulator.device; " if mode == "emulated" else ""
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
    warm: bool = False,
) -> int:
    """Run to the end, or until it is ``done``; nothing of it survives a time-out. ``warm``: by an
    interpreter that is there already.

    Raises:
        JobError: it failed.
        StoppedError: it was ended by ``stop``, or had not begun then.
    """
    if _stopping.is_set():
        raise StoppedError
    said = folder / "said.txt"
    said.touch()
    words, own = [*words, "--times", "times.json"], environment(options)
    job: AbstractContextManager[Child] = (
        become(words[1:], folder, own, said) if warm else _afresh(words, folder, own, said)
    )
    with job as child:
        try:
            status = _ended(child, budget.limit_s, done)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if status and not may_fail:
        tail = said.read_text("utf-8", "replace").strip()[-600:]
        raise JobError(f"ended with {status}: {tail}")
    return status


class Child(Protocol):
    """A process that leads a session of its own."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its status; None while it runs."""

    def wait(self) -> int:
        """The same, once it has ended."""


@contextmanager
def _afresh(words: list[str], folder: Path, own: dict[str, str], said: Path) -> Iterator[Child]:
    with said.open("ab") as file:
        yield subprocess.Popen(
            words,
            cwd=folder,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _ended(child: Child, limit_s: float, done: Callable[[], bool] | None) -> int:
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
