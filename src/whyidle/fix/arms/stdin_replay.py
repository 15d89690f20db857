"""Gives every arm the same standard input: the user's file from its current position, or nothing.

A file can be opened again for each arm; input from a pipe or a terminal can be read only once.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

STANDARD = 0  # descriptor of the standard input
OWN = Path("/proc/self/fd")
"""a file opened by this path has its own position, unlike a duplicated descriptor"""


def stdin_kind(descriptor: int = STANDARD) -> Literal["file", "pipe", "typed", "none"]:
    """Classify the standard input; a file that cannot be opened again is a ``pipe``."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return "none"
    if stat.S_ISREG(mode):
        return "file" if (OWN / str(descriptor)).exists() else "pipe"
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return "pipe"
    return "typed" if os.isatty(descriptor) else "none"


def redirect_words(descriptor: int = STANDARD) -> str:
    """Shell redirection of the same file, to append to a command; empty without a named file."""
    if stdin_kind(descriptor) != "file":
        return ""
    path = (OWN / str(descriptor)).readlink()
    return f" < {shlex.quote(str(path))}" if path.is_file() else ""


@contextmanager
def open_stdin(descriptor: int = STANDARD) -> Iterator[int]:
    """Open a descriptor for an arm: the user's file at its current position, or ``/dev/null``."""
    file = stdin_kind(descriptor) == "file"
    opened = os.open(OWN / str(descriptor) if file else os.devnull, os.O_RDONLY)
    try:
        if file:
            os.lseek(opened, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        yield opened
    finally:
        os.close(opened)
