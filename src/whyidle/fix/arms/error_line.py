"""Finds the error message in the output of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = ("site-packages", "dist-packages")
ERROR = re.compile(r"(?:\[\w+\]: ?)*((?:\w+\.)*(?:\w+Error|\w*Exception)(?::.*)?)")
"""``[rank0]: torch.OutOfMemoryError: CUDA out of memory.``"""
FRAME = re.compile(r'(?:\[\w+\]: *)*File "([^"]+)", line (\d+), in .*')  # a line of a traceback
LAUNCHER = "ChildFailedError"  # the launcher's own error, which does not name the cause


def last_error_line(output: str) -> str:
    """The last line of the form of an error, without its rank prefix; else the last line."""
    lines = output.strip().splitlines()
    index = _error_index(lines)
    match = ERROR.fullmatch(lines[index].strip()) if index is not None else None
    return match[1] if match else lines[-1] if lines else ""


def error_place(output: str, folder: Path) -> str:
    """The innermost line of the traceback below ``folder``, such as ``train.py:31``; or empty."""
    lines = output.strip().splitlines()
    frames = (FRAME.fullmatch(line.strip()) for line in reversed(lines[: _error_index(lines) or 0]))
    for frame in frames:
        path = frame and folder / frame[1]
        if frame and path and path.is_relative_to(folder) and not {*LIBRARIES} & {*path.parts}:
            return f"{path.relative_to(folder)}:{frame[2]}"
    return ""


def _error_index(lines: Sequence[str]) -> int | None:
    numbered = reversed([*enumerate(lines)])
    at = (n for n, line in numbered if LAUNCHER not in line and ERROR.fullmatch(line.strip()))
    return next(at, None)
