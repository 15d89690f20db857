"""Nsight Systems exports (SQLite), of every version: one recording per process that used a GPU."""

from __future__ import annotations

import re
from pathlib import Path

from whyidle.model.timeline import Timeline
from whyidle.readers._files.byte_stream import Progress

SUFFIXES = (".sqlite", ".sqlite.gz", ".sqlite3")
_MAGIC = re.compile(rb"SQLite format 3\0..[\1\2][\1\2].\x40\x20\x20", re.DOTALL)
"""with the constants of every database; one of another program is named by its tables"""


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes have this format."""
    return _MAGIC.match(head) is not None


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read an export: a file or a zip's ``member``. The recordings of further processes are the
    ``others`` of the first.

    Raises:
        InputError: the file cannot be opened.
        NotATraceError: it is a database of another kind.
        BrokenTraceError: nothing in it could be read.
    """
    from whyidle.readers.nsys.nsys_timeline import read_export  # noqa: PLC0415  # takes 4 ms

    return read_export(path, member, progress)
