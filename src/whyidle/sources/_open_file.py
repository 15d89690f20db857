"""Small kernel files that stay open: reading one again costs a third of opening it anew."""

from __future__ import annotations

import os
from pathlib import Path

from whyidle.model.telemetry import Absent

MOST_BYTES = 1 << 16


class OpenFile:
    """A file of ``/proc`` or ``/sys``. ``read`` gives None once it is gone, or may not be read."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._descriptor = _open_descriptor(self.path)

    @property
    def is_open(self) -> bool:
        """Whether there was such a file when it was opened, and it was not closed since."""
        return self._descriptor >= 0

    def read(self, size: int = MOST_BYTES) -> bytes | None:
        """Its content now; a file of a process that ended has none, even if its id lives on."""
        if self._descriptor < 0:
            return None
        try:
            return os.pread(self._descriptor, size, 0)
        except OSError:
            return None

    def close(self) -> None:
        """May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open_descriptor(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return -1


def read_text(path: Path) -> str:
    """A small file read once; empty where it cannot be."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def parse_count(content: bytes) -> int | None:
    """A count; None for ``max``, for nothing, and for what is no count."""
    content = content.strip()
    return int(content) if content.isdigit() else None


def parse_numbers(content: bytes | None, *names: bytes) -> dict[bytes, int]:
    """Numbers of lines ``name value [unit]`` or ``name: value``, as in ``/proc/meminfo``,
    ``/proc/vmstat`` and ``cpu.stat``. Only the wanted lines are looked at: vmstat has two hundred.

    Args:
        content: the file's.
        names: each with the blank or colon that ends it, without which ``oom_kill`` would find
            ``oom_kill_disable``.
    """
    lines = b"\n" + (content or b"")
    found = {}
    for name in names:
        begin = lines.find(b"\n" + name)
        words = lines[begin + 1 + len(name) : begin + 64 + len(name)].split(None, 1)
        if begin >= 0 and words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def explain_unreadable(path: Path | str, how: str = "") -> Absent:
    """Why a file gives nothing."""
    if not os.path.exists(path):  # noqa: PTH110  # a str or a Path
        return Absent(f"this system has no {path}", how)
    return Absent(f"{path} may not be read", how or "run as the user who owns the job")
