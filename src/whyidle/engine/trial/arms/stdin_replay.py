"""What an arm reads from its standard input: the user's file from where it stands, or nothing.

A command that is run again and again must read the same every time. A file can be opened anew for
each arm; what comes through a pipe, or is typed, is gone once it is read.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

STANDARD = 0
"""the descriptor"""
OWN = Path("/proc/self/fd")
"""opened by this name a file has a position of its own, which a copy of its descriptor has not"""


def stdin_kind(descriptor: int = STANDARD) -> Literal["file", "pipe", "typed", "none"]:
    """What stands behind it; a file is none where it cannot be opened anew."""
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
    """How a shell is told to give the same file again, after a command; empty without one, and
    where it has no name any more."""
    if stdin_kind(descriptor) != "file":
        return ""
    path = (OWN / str(descriptor)).readlink()
    return f" < {shlex.quote(str(path))}" if path.is_file() else ""


@contextmanager
def open_stdin(descriptor: int = STANDARD) -> Iterator[int]:
    """A descriptor for an arm to read: of the user's file, from where that stands by now, or of
    nothing."""
    file = stdin_kind(descriptor) == "file"
    opened = os.open(OWN / str(descriptor) if file else os.devnull, os.O_RDONLY)
    try:
        if file:
            os.lseek(opened, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        yield opened
    finally:
        os.close(opened)
