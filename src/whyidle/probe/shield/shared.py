"""Shared memory by name, where no overlay keeps a trial's apart.

A process leaves its own id, and each name that Python makes with its inode, in a folder of ours:
what is still there at the end is removed by that. A name that is somebody else's is opened as the
file it is, so that the view diverts it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .view import SHARED

_open, _close = os.open, os.close


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
