"""Whoever is about to use a file that another process still writes waits until it is whole.

Python tells of most uses by audit events. Of ``os.stat`` and its like it does not, so they are
wrapped while a file is pending.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

from . import Hand
from ._opened import Files

ASKS = {
    "open": (0,),
    "os.rename": (0, 1),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.link": (0, 1),
    "os.symlink": (0,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "os.setxattr": (0,),
    "os.listdir": (0,),
    "os.scandir": (0,),
    "shutil.copyfile": (0, 1),
}
"""audit events, and which of their arguments name files, or folders of files, that must be whole"""
LEAVES = frozenset(
    [
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.kill",
        "os.killpg",
        "socket.connect",
        "socket.sendto",
    ]
)
"""events after which anybody may look at any file"""
SILENT = ("stat", "lstat", "access", "fstat")
MOVES = ("rename", "replace")
ABILITIES = (
    os.supports_dir_fd,
    os.supports_effective_ids,
    os.supports_fd,
    os.supports_follow_symlinks,
)
"""sets of functions of ``os`` that other modules ask before they call them"""


class Waiting:
    """Waits on behalf of everybody in this process."""

    def __init__(self, hand: Hand, writers: Any, knobs: Collection[str]) -> None:
        self.hand = hand
        self.writers = writers
        self.knobs = knobs
        self.files = Files(hand, self.on)
        self.listens = False
        self.busy: set[int] = set()
        """threads that wait now: what they do themselves is not listened to"""
        self.undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """A file is about to be written."""
        if not self.listens:
            self.listens = True
            sys.addaudithook(self._heard)
        for name in SILENT if not self.undo else ():
            before = len(self.hand.undo)
            self.hand.replace(os, name, self._wrap)
            wrapped: Any = getattr(os, name)
            for known in ABILITIES:
                if wrapped.__wrapped__ in known:
                    known.add(wrapped)
            self.undo.append(self.hand.undo.pop(before))
        for name in MOVES if len(self.undo) == len(SILENT) else ():
            before = len(self.hand.undo)
            self.hand.replace(os, name, self._wrap_move)
            self.undo.append(self.hand.undo.pop(before))

    def end(self) -> None:
        """Until all are whole; nothing is wrapped any more."""
        self.writers.all()
        self._unwrap()

    def on(self, name: Any) -> None:
        """Until this file, and all in the folder of this name, are whole."""
        if type(name) is int:
            self._quietly(self.files.settle, name)
        if not self.writers.pending or not isinstance(name, (str, bytes, os.PathLike)):
            return
        self._quietly(self._on, name)

    def _on(self, name: Any) -> None:
        path = os.path.realpath(os.fsdecode(name))
        for each in list(self.writers.pending):
            if each == path or each.startswith(path.rstrip(os.sep) + os.sep):
                self.writers.wait(each)

    def _quietly(self, work: Callable[..., Any], *args: Any) -> Any:
        """Do it without listening to what is done in it: a fault is written to a file, too."""
        own = threading.get_ident()
        before = own in self.busy
        self.busy.add(own)
        try:
            return self.hand.contained(self.knobs, work, *args)
        finally:
            if not before:
                self.busy.discard(own)

    def _unwrap(self) -> None:
        while self.undo:
            self.undo.pop()()

    def _idle(self) -> bool:
        if not self.writers.pending:  # nearly always: every audit event asks
            return True
        return self.hand.child or threading.get_ident() in self.busy

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if self._idle():
            return
        if event in ASKS:
            self._quietly(self._use, event, args)
        elif event in LEAVES:
            self._quietly(self.writers.all)

    def _use(self, event: str, args: tuple[Any, ...]) -> None:
        for number in ASKS[event]:
            if number < len(args):
                self.on(args[number] if args[number] is not None else os.curdir)
        if any(type(one) is int and one >= 0 for one in args[2:]) and event != "open":
            self.writers.all()  # relative to an open folder

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def asks(*args: Any, **kwargs: Any) -> Any:
            if not self._idle():
                relative = kwargs.get("dir_fd") is not None
                path = args[0] if args else kwargs.get("path")
                self._quietly(self.on, os.sep if relative else path)
            return original(*args, **kwargs)

        return asks

    def _wrap_move(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def move(src: Any, dst: Any, **folders: Any) -> Any:
            if folders or self._idle() or not self._quietly(self._moved, src, dst):
                return original(src, dst, **folders)
            return None

        return move

    def _moved(self, src: Any, dst: Any) -> bool:
        """Whether it will be renamed once it is whole: a file that is being written, to where it
        surely can be."""
        source, target = os.path.realpath(os.fsdecode(src)), os.fsdecode(dst)
        here = threading.current_thread() is threading.main_thread()
        if not here or source not in self.writers.pending or os.path.islink(os.fsdecode(src)):
            return False
        if os.path.islink(target) or os.path.isdir(target):
            return False
        target = os.path.realpath(target)
        old, new = os.path.dirname(source), os.path.dirname(target)
        if not os.access(new, os.W_OK | os.X_OK) or os.stat(old).st_dev != os.stat(new).st_dev:
            return False
        try:
            self.writers.move(source, target)
        except OSError:
            return False
        return True

    def before(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Have all files be whole before this is called."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._idle():
                self._quietly(self.writers.all)
            return original(*args, **kwargs)

        return call
