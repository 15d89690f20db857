"""A thread that writes files in the order of their submission.

A file is written in a folder next to its place and renamed when it is complete. Code that uses its
name, or starts a process that may, waits until then: Python announces most uses by audit events.
The thread is not a daemon, so that the process ends after it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE_EVENTS = """
open os.rename os.remove os.rmdir os.link os.symlink os.truncate os.chmod os.chown os.utime
os.setxattr os.listdir os.scandir shutil.copyfile shutil.move
"""
"""audit events whose first arguments name files or folders"""
PROCESS_EVENTS = """
subprocess.Popen os.system os.exec os.fork os.forkpty os.posix_spawn os.spawn os.kill os.killpg
socket.connect socket.sendto
"""
"""audit events after which another process may read any file"""


class FileWriter:
    """The writing thread. ``failure`` says which file could not be written, until it is raised."""

    def __init__(self) -> None:
        self.failure = ""
        self._changed = threading.Condition()
        self._queue: deque[tuple[str, Callable[[str], Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()
        self._listens = False
        self._own = threading.local()

    @property
    def is_idle(self) -> bool:
        """Whether this thread has nothing to wait for."""
        if not self._queue or threading.current_thread() is self._thread:
            return True
        # a forked copy has no such thread
        return getattr(self._own, "use", False) or os.getpid() != self._owner

    @contextmanager
    def bypass_waiting(self) -> Iterator[None]:
        """Let this thread use files without waiting meanwhile."""
        before, self._own.use = getattr(self._own, "use", False), True
        try:
            yield
        finally:
            self._own.use = before

    def submit_write(self, path: str, write: Callable[[str], Any]) -> None:
        """Queue ``write``, called with the path of a draft that then replaces ``path``."""
        if not self._listens:
            self._listens = True
            sys.addaudithook(self._on_event)
        with self._changed:
            self._queue.append((path, write))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_loop, name="whyidle file writer")
                try:
                    self._thread.start()
                except BaseException:
                    self._queue.pop()
                    self._thread = None
                    raise

    def wait_all(self, *_: Any) -> None:
        """Wait until every file is complete."""
        if not self.is_idle:
            with self._changed:
                self._changed.wait_for(lambda: not self._queue)

    def wait_for(self, name: Any) -> None:
        """Wait until this file, or all files in this folder, are complete."""
        if self.is_idle or not isinstance(name, (str, bytes, os.PathLike)):
            return
        try:
            with self.bypass_waiting():
                path = os.path.realpath(os.fsdecode(name))
        except ValueError:  # the caller's own use of the name raises it too
            return
        below = path.rstrip(os.sep) + os.sep
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    not any(queued == path or queued.startswith(below) for queued, _ in self._queue)
                )
            )

    def _run_loop(self) -> None:
        while True:
            path, write = self._queue[0]
            try:
                _write_file(path, write)
            except Exception as error:  # the next save raises it
                self.failure = f"the checkpoint {path} could not be written: {error}"
                print(f"whyidle: {self.failure}", file=sys.stderr)
            del write
            with self._changed:
                self._queue.popleft()
                self._changed.notify_all()
                if not self._queue:
                    self._thread = None
                    return

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if self.is_idle:
            return
        if event in PROCESS_EVENTS.split():
            self.wait_all()
        elif event in FILE_EVENTS.split():
            if (
                any(type(argument) is int and argument >= 0 for argument in args[2:])
                and event != "open"
            ):
                self.wait_all()  # a name relative to an open folder
            for name in args[:2] if event != "open" else args[:1]:
                self.wait_for(os.curdir if name is None else name)


def _write_file(path: str, write: Callable[[str], Any]) -> None:
    """Write a draft of the same file name, which PyTorch stores in the archive, and rename it."""
    place = Path(path)
    folder = place.with_name(f".whyidle-{os.getpid()}")
    folder.mkdir(exist_ok=True)
    try:
        draft = folder / place.name
        write(str(draft))
        if place.exists():
            draft.chmod(place.stat().st_mode & 0o7777)
        draft.replace(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
