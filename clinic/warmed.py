"""Interpreters that are warm: asking one of them to become a job."""

from __future__ import annotations

import atexit
import json
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clinic.times import JobError
from clinic.typed import environment

SCRIPT = Path(__file__).with_name("warm.py")


class Warm:
    """One interpreter, and the job that it has become last. Looks like a process from outside."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is meant for whoever asked
            env=environment({}),
        )
        self.pid = 0
        self._status: int | None = None

    def begin(self, words: Sequence[str], folder: Path, own: dict[str, str], said: Path) -> None:
        """Become a job, whose words begin with its script. Raises JobError where it cannot."""
        told = {"words": list(words), "folder": str(folder), "environment": own, "said": str(said)}
        assert self._process.stdin
        self._status = None
        try:
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
        except OSError as error:
            raise JobError(f"no warm interpreter: {error}") from error
        self.pid = self._number()

    def poll(self) -> int | None:
        """The job's status; None while it runs."""
        assert self._process.stdout
        if self._status is None and _ready(self._process.stdout.fileno()):
            self._status = self._number()
        return self._status

    def wait(self) -> int:
        """The same, once it has ended."""
        if self._status is None:
            self._status = self._number()
        return self._status

    def _number(self) -> int:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise JobError(f"a warm interpreter ended with {self._process.wait()}")
        return int(line)

    def close(self) -> None:
        """It is needed no more."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def _ready(file: int) -> bool:
    return bool(select.select([file], [], [], 0)[0])


_idle: list[Warm] = []
_lock = threading.Lock()


@contextmanager
def warm(words: Sequence[str], folder: Path, own: dict[str, str], said: Path) -> Iterator[Warm]:
    """An interpreter that became this job; several jobs may run side by side. Whoever leaves
    without an error has waited for the job's end."""
    with _lock:
        one = _idle.pop() if _idle else Warm()
    try:
        one.begin(words, folder, own, said)
        yield one
    except BaseException:
        one.close()
        raise
    with _lock:
        _idle.append(one)


@atexit.register
def close() -> None:
    """Leave nobody behind."""
    while _idle:
        _idle.pop().close()
