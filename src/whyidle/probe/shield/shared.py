"""Shared memory by name, where no overlay keeps a trial's apart.

A process leaves its own id, and each name that Python makes with its inode, in a folder of ours:
what is still there at the end is removed by that. A name that is somebody else's is opened as the
file it is, so that the view diverts it. What is made there by a path is named by the first part of
it. What programs make or remove there that are no Python is not seen: Landlock has to let shared
memory be written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .view import SHARED, View

MAKING = {
    **dict.fromkeys(("mkdir", "mkfifo", "mknod", "open"), 0),
    **dict.fromkeys(("link", "rename", "replace", "symlink"), 1),
}
"""functions of ``os`` that may make a name, and which of their arguments that is"""
_open, _close, _lstat = os.open, os.close, os.lstat


class Marks:
    """Names in ``folder`` what is made in shared memory by a path."""

    def __init__(self, view: View, folder: str) -> None:
        self.view, self.folder = view, folder

    def made(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        """``original``, one of those that make a name; else as it is."""
        if name not in MAKING:
            return original
        position, opens = MAKING[name], name == "open"

        def call(*args: Any, **kwargs: Any) -> Any:
            new = None if opens and not _makes(*args, **kwargs) else self._new(args[position])
            found = original(*args, **kwargs)
            if new is not None:
                with suppress(OSError):  # it is gone already
                    _leave(self.folder, f"{new}.{_lstat(SHARED + new).st_ino}.made")
            return found

        return call

    def _new(self, path: Any) -> str | None:
        """The first part of a path below shared memory, where nothing is of that name."""
        place = self.view.place(path) or ""
        name = place[len(SHARED) :].partition("/")[0] if place.startswith(SHARED) else ""
        try:
            _lstat(SHARED + name)
        except FileNotFoundError:
            return name or None  # no name: a system without it
        except OSError:
            pass
        return None


def _makes(_: Any, how: Any = "r", *__: Any, **kwargs: Any) -> bool:
    """Whether a file that is opened so may be a new one."""
    if isinstance(how, int):
        return bool(how & os.O_CREAT)
    return bool(set("wax").intersection(kwargs.get("mode", how)))


def install(folder: str, held: Sequence[str]) -> None:
    """From here on in this process and those that it forks."""
    try:
        import _posixshmem  # type: ignore[import-not-found]
    except ImportError:
        return  # a system without it
    _here(folder)
    os.register_at_fork(after_in_child=lambda: _here(folder))
    original, unlink = _posixshmem.shm_open, _posixshmem.shm_unlink

    def shm_open(path: str, flags: int, mode: int = 0o777) -> Any:
        name = path.lstrip("/")
        if name in held:
            return os.open(SHARED + name, flags, mode)
        handle = original(path, flags, mode=mode)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            _leave(folder, f"{name}.{os.fstat(handle).st_ino}.made")
        return handle

    def shm_unlink(path: str) -> None:
        name = path.lstrip("/")
        if name in held:
            os.unlink(SHARED + name)
        else:
            unlink(path)

    _posixshmem.shm_open, _posixshmem.shm_unlink = shm_open, shm_unlink


def _here(folder: str) -> None:
    _leave(folder, f"{os.getpid()}.pid")


def _leave(folder: str, name: str) -> None:
    with suppress(OSError):  # it is not removed then; the job goes on
        _close(_open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY, 0o600))
