"""Checkpoints that another process writes: a forked copy of this one, as it was at that moment.

The copy shares all memory until somebody writes to it, so nothing is copied ahead, and it has an
interpreter of its own. What lies on a device is copied to the host first (``_state``). The file
takes its place when it is whole, so at any time there is the one before or the new one. Whoever
opens, asks for or removes it, or starts a program, waits until then (``_waiting``); so does the end
of the process. Renaming it, as careful scripts do, is left to another copy, and a file that they
have opened themselves is written like a named one (``_opened``). Where a copy could not do the
same, the script writes as it always did.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import io
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from . import DeclinedError, Hand, _memory
from ._opened import Opened, put
from ._state import State, UnknownError, state_of
from ._waiting import Waiting

MOST_S = 300.0
"""a writer whose file has not grown for so long is taken to hang, and ended"""
MEETINGS = ("barrier", "monitored_barrier", "broadcast_object_list", "all_gather_object")
"""after these other ranks may read what one of them has saved"""
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


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have ``torch.save`` to a file return at once."""
    import torch

    if not hasattr(os, "fork"):
        raise DeclinedError("this system cannot fork a process")
    saves = Saves(hand, edits)
    hand.replace(torch, "save", saves.wrap)
    for owner in (builtins, io):
        hand.replace(owner, "open", saves.waiting.files.wrap)
    for name in MEETINGS if torch.distributed.is_available() else ():
        hand.replace(torch.distributed, name, saves.waiting.before)
    hand.undo.append(saves.waiting.end)
    atexit.register(saves.waiting.end)


class Saves:
    """What stands for ``torch.save``."""

    def __init__(self, hand: Hand, edits: dict[str, Any]) -> None:
        self.hand = hand
        self.edits = edits
        self.writers = Writers()
        self.waiting = Waiting(hand, self.writers, edits)

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Write beside the training where that is possible."""

        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            write = functools.partial(_original, original, args, kwargs)
            if not isinstance(f, (str, os.PathLike, Opened)) or self.hand.child:
                return write(obj, f)
            self.waiting.on(_name(f))
            if self.writers.failed:
                told, self.writers.failed = self.writers.failed, ""
                raise RuntimeError(told)
            if self.hand.contained(self.edits, self._beside, write, obj, f):
                return None
            return write(obj, f)

        return save

    def _beside(self, write: Callable[[Any, Any], Any], obj: Any, f: Any) -> bool:
        """Whether it is being written by another process now."""
        path = os.path.realpath(_name(f))
        if isinstance(f, Opened) and not f.fresh():
            return False
        state = _possible(self.hand, self.edits, path, obj)
        if state is None:
            return False

        def in_copy(draft: str) -> None:
            state.as_it_was()
            if isinstance(f, Opened):
                put(write, state.value, draft, path)
            else:
                write(state.value, draft)

        try:
            self.waiting.begin()
            self.writers.begin(path, in_copy)
        except OSError as error:
            self.hand.decline(self.edits, f"no copy of the process can be made: {error}")
            return False
        if isinstance(f, Opened):
            self.waiting.files.begin(f)
        self.hand.took(*self.edits)
        return True


def _name(f: Any) -> str:
    return f.path if isinstance(f, Opened) else os.fspath(f)


def _original(original: Callable[..., Any], args: Any, kwargs: Any, obj: Any, f: Any) -> Any:
    return original(obj, f, *args, **kwargs)


def _possible(hand: Hand, edits: dict[str, Any], path: str, obj: Any) -> State | None:
    """What is to be saved, for another process; None where the script has to write it itself."""
    if threading.current_thread() is not threading.main_thread():
        return None  # the other thread is in the midst of something
    folder = os.path.dirname(path)
    plain = os.path.isfile(path) or not os.path.lexists(path)
    if not plain or not os.access(folder, os.W_OK | os.X_OK):
        return None  # and it says what is wrong as it always did
    if os.path.exists(path) and not os.access(path, os.W_OK):
        return None
    try:
        state = state_of(obj)
    except UnknownError as error:
        hand.decline(edits, str(error))
        return None
    if shutil.disk_usage(folder).free < 1.1 * state.size + (1 << 20):
        return None
    if _memory.free_bytes() < 2 * state.size:
        hand.decline(edits, "there is too little memory for a second copy of what is saved")
        return None
    return state
