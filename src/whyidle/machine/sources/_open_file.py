"""Small kernel files that stay open; rereading costs a third of opening anew."""

from __future__ import annotations

import os
from pathlib import Path

from whyidle.model.live.telemetry import Absent

MOST_BYTES = 1 << 16


class OpenFile:
    """A file of ``/proc`` or ``/sys``. ``read`` returns None if it has gone or is not readable."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._descriptor = _open_descriptor(self.path)

    @property
    def is_open(self) -> bool:
        """Whether the file could be opened and is not closed."""
        return self._descriptor >= 0

    def read(self, size: int = MOST_BYTES) -> bytes | None:
        """Return its content now; None for a file of an ended process, even if its id is reused."""
        if self._descriptor < 0:
            return None
        try:
            return os.pread(self._descriptor, size, 0)
        except OSError:
            return None

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open_descriptor(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return -1


def read_text(path: Path) -> str:
    """Return the content of a small file; empty if unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def parse_count(content: bytes) -> int | None:
    """Return a count; None for ``max``, nothing, and anything else."""
    content = content.strip()
    return int(content) if content.isdigit() else None


def parse_numbers(content: bytes | None, *names: bytes) -> dict[bytes, int]:
    """Return numbers of lines ``name value [unit]`` or ``name: value``, as in ``/proc/meminfo``,
    ``/proc/vmstat`` and ``cpu.stat``, for the given names only, as vmstat has two hundred lines.

    Args:
        content: the file's.
        names: each with the blank or colon that ends it; otherwise ``file`` would match
            ``file_mapped``.
    """
    lines = b"\n" + (content or b"")
    numbers = {}
    for name in names:
        begin = lines.find(b"\n" + name)
        words = lines[begin + 1 + len(name) : begin + 64 + len(name)].split(None, 1)
        if begin >= 0 and words and words[0].isdigit():
            numbers[name] = int(words[0])
    return numbers


def explain_unreadable(path: Path | str, how: str = "") -> Absent:
    """Return why a file has no content."""
    if not os.path.exists(path):  # noqa: PTH110  # a str or a Path
        return Absent(f"this system has no {path}", how)
    return Absent(f"{path} is not readable", how or "run as the user who owns the job")
