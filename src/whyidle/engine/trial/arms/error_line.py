"""The line of what a job printed that says why it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = ("site-packages", "dist-packages")
ERROR = re.compile(r"(?:\[\w+\]: ?)*((?:\w+\.)*(?:\w+Error|\w*Exception)(?::.*)?)")
"""``[rank0]: torch.OutOfMemoryError: CUDA out of memory.``"""
FRAME = re.compile(r'(?:\[\w+\]: *)*File "([^"]+)", line (\d+), in .*')
"""of a traceback"""
LAUNCHER = "ChildFailedError"
"""what a launcher ends with, which says nothing of the job"""


def last_error_line(said: str) -> str:
    """The last line that looks like an error, without the rank before it, or else the last one;
    empty where it printed nothing. Below an error a launcher prints a table of its own."""
    lines = said.strip().splitlines()
    at = _error_index(lines)
    found = ERROR.fullmatch(lines[at].strip()) if at is not None else None
    return found[1] if found else lines[-1] if lines else ""


def error_place(said: str, folder: Path) -> str:
    """``train.py:31``, the last line of a file below ``folder`` in the traceback above that error;
    empty where there is none, or only lines of libraries."""
    lines = said.strip().splitlines()
    frames = (FRAME.fullmatch(line.strip()) for line in reversed(lines[: _error_index(lines) or 0]))
    for frame in frames:
        path = frame and folder / frame[1]
        if frame and path and path.is_relative_to(folder) and not {*LIBRARIES} & {*path.parts}:
            return f"{path.relative_to(folder)}:{frame[2]}"
    return ""


def _error_index(lines: Sequence[str]) -> int | None:
    """Where the error stands."""
    numbered = reversed([*enumerate(lines)])
    at = (n for n, line in numbered if LAUNCHER not in line and ERROR.fullmatch(line.strip()))
    return next(at, None)
