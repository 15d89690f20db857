"""The processes that write checkpoints: forked copies of this one, each for a file, in the order in
which they were begun."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

MOST_S = 300.0
"""a writer whose file has not grown for so long is taken to hang, and ended"""
MOST = 4
"""writers at a time: another save waits for the first of them"""


class Writers:
    """The processes that write, by the file; ``failed`` is what the next save will tell."""

    def __init__(self) -> None:
        self.pending: dict[str, list[int]] = {}
        self.failed = ""
        self.owner = os.getpid()
        self.lock = threading.RLock()
        self.before = -1
        """reads its end when the writer before is done"""

    def begin(self, path: str, write: Callable[[str], Any]) -> None:
        """Have ``write`` put the file together elsewhere, and in its place, by a copy of this
        process.

        Raises:
            OSError: there can be no copy.
        """
        while len(self.pending) >= MOST:
            self.wait(next(iter(self.pending)))
        self._start(functools.partial(_write, path, write), path)

    def move(self, source: str, target: str) -> None:
        """Have a file that is being written renamed once it is whole.

        Raises:
            OSError: there can be no copy.
        """
        self._start(functools.partial(_move, source, target), source, target)

    def _start(self, work: Callable[[int], None], *paths: str) -> None:
        """Do it in a copy of this process, which is given what ends when the one before does."""
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads: see _write
            done, doing = os.pipe()
            try:
                child = os.fork()
            except OSError:
                os.close(done)
                raise
            finally:
                if os.getpid() == self.owner:
                    os.close(doing)
        if child:
            for path in paths:
                self.pending.setdefault(path, []).append(child)
            self._close(done)
            return
        status = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # who ends the job still wants the checkpoint
            work(self.before)
            status = 0
        finally:
            os._exit(status)

    def _close(self, following: int = -1) -> None:
        if self.before >= 0:
            os.close(self.before)
        self.before = following

    def wait(self, path: str) -> None:
        """Until that file is whole, or never will be."""
        with self.lock:
            if path in self.pending and os.getpid() == self.owner:
                for child in self.pending[path]:
                    self._reap(path, child)
                self.pending.pop(path, None)

    def _reap(self, path: str, child: int) -> None:
        until, size = time.monotonic() + MOST_S, -1
        pause_s = 0.0005
        while True:
            try:
                found, status = os.waitpid(child, os.WNOHANG)
            except ChildProcessError:  # waited for under another name, or by the script
                status = 0
                break
            if found:
                break
            if time.monotonic() > until:
                before, size = size, _size(_draft(path, child))
                until += MOST_S
                if size == before:
                    os.kill(child, signal.SIGKILL)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        shutil.rmtree(_draft(path, child), ignore_errors=True)
        if status:
            self.failed = f"the checkpoint {path} could not be written beside the training"
            print(f"whyidle: {self.failed}", file=sys.stderr)

    def all(self, *_: Any) -> None:
        """Until every file is whole."""
        for path in list(self.pending):
            self.wait(path)


def _size(folder: str) -> int:
    """Bytes of the files in a folder; 0 where there is none."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    except OSError:
        return 0


def _draft(path: str, pid: int) -> str:
    """The folder beside it where it is put together, under its own name: that is in the file."""
    return os.path.join(os.path.dirname(path), f".whyidle-{pid}")


def _write(path: str, write: Callable[[str], Any], before: int) -> None:
    """In the copy. It has one thread: whatever needs others would wait for them for ever. Files
    appear in the order in which they were saved."""
    import torch

    torch.set_num_threads(1)
    folder = _draft(path, os.getpid())
    os.mkdir(folder)
    try:
        draft = os.path.join(folder, os.path.basename(path))
        write(draft)
        if os.path.exists(path):
            os.chmod(draft, os.stat(path).st_mode & 0o7777)
        if before >= 0:
            os.read(before, 1)
        os.replace(draft, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(source: str, target: str, before: int) -> None:
    if before >= 0:
        os.read(before, 1)
    if not os.path.getsize(source):
        raise OSError(f"{source} was not written")  # its writer was ended
    os.replace(source, target)
