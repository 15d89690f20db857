"""Checkpoints that another process writes: a forked copy of this one, as it was at that moment.

The copy shares all memory until somebody writes to it, so nothing is copied ahead, and it has an
interpreter of its own. What lies on a device is copied to the host first. Whoever opens, renames or
removes the file waits until it is whole; so does the end of the process. The next save tells of one
that failed, as the call itself would have.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import Hand

MOST_S = 300.0
"""a writer that takes longer is taken to hang, and ended"""
ASKS = {
    "open": (0,),
    "os.rename": (0, 1),
    "os.remove": (0,),
    "os.link": (0, 1),
    "shutil.move": (0,),
}
"""audit events, and which of their arguments name files that must be whole by then"""


class Writers:
    """The processes that write, by the file."""

    def __init__(self) -> None:
        self.pending: dict[str, int] = {}
        self.failed = ""
        self.owner = os.getpid()
        self.thread = threading.get_ident()

    def begin(self, path: str, write: Callable[[], Any]) -> None:
        """Have ``write`` done by a copy of this process."""
        self.wait(path)
        if self.failed:
            told, self.failed = self.failed, ""
            raise RuntimeError(told)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            self.pending[path] = child
            return
        status = 1
        try:
            self.pending.clear()
            write()
            status = 0
        finally:
            os._exit(status)

    def wait(self, path: str) -> None:
        """Until that file is whole."""
        child = self.pending.pop(path, None)
        if child is None or os.getpid() != self.owner:
            return
        until = time.monotonic() + MOST_S
        while True:
            try:
                found, status = os.waitpid(child, os.WNOHANG)
            except ChildProcessError:
                return
            if found:
                break
            if time.monotonic() > until:
                os.kill(child, 9)
            time.sleep(0.001)
        if status:
            self.failed = f"the checkpoint {path} could not be written beside the training"
            print(f"whyidle: {self.failed}", file=sys.stderr)

    def all(self) -> None:
        """Until every file is whole."""
        for path in list(self.pending):
            self.wait(path)

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        """Somebody is about to use a file."""
        if self.pending and event in ASKS:
            for number in ASKS[event]:
                name = args[number] if number < len(args) else None
                if isinstance(name, (str, bytes, os.PathLike)):
                    self.wait(os.path.abspath(os.fsdecode(name)))


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have ``torch.save`` to a named file return at once."""
    import torch

    writers = Writers()

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            named = isinstance(f, (str, os.PathLike))
            if not named or os.getpid() != writers.owner or _busy():
                return original(obj, f, *args, **kwargs)
            kept = _on_host(obj)
            writers.begin(os.path.abspath(os.fspath(f)), lambda: original(kept, f, *args, **kwargs))
            hand.took(*edits)
            return None

        return save

    hand.replace(torch, "save", make)
    hand.undo.append(writers.all)
    sys.addaudithook(writers.heard)
    atexit.register(writers.all)


def _busy() -> bool:
    """Whether another thread computes with tensors now, so that a copy could not."""
    return threading.current_thread() is not threading.main_thread()


def _on_host(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu() if value.device.type != "cpu" else value
    if isinstance(value, dict):
        changed = {name: _on_host(one) for name, one in value.items()}
        return changed if any(changed[n] is not value[n] for n in value) else value
    if type(value) in (list, tuple):
        listed = type(value)(map(_on_host, value))
        return listed if any(a is not b for a, b in zip(listed, value, strict=True)) else value
    return value
