"""Stores the user's source files that a recording names with the recording.

A later diagnosis of the recording thus gives the same result if the files change. Files are stored
at the first diagnosis, if they have not been modified since they were recorded.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from whyidle.model.frames import own_files
from whyidle.readers import probe
from whyidle.readers.probe.loader_records import read_document, read_lines
from whyidle.store.atomic_write import write_atomic

MOST_FILES: Final = 50
MOST_BYTES: Final = 1 << 20  # size limit of a stored file


def keep_sources(recording: Path) -> None:
    """Write ``sources.json``: source files in the stacks of training processes -> their text (None:
    not available). Existing entries are not changed."""
    kept: dict[str, str | None] = read_document(recording / probe.SOURCES)
    before = len(kept)
    for process in (*probe.trained_processes(recording), *probe.untrained_processes(recording)):
        stacks = recording / f"{process}.stacks"
        for name in own_files(read_lines(stacks)):
            if name not in kept:
                kept[name] = _unchanged_text(Path(name), stacks) if len(kept) < MOST_FILES else None
    if len(kept) > before:
        with suppress(OSError):  # a full disk or a read-only folder
            write_atomic(recording / probe.SOURCES, json.dumps(kept).encode())


def _unchanged_text(source: Path, stacks: Path) -> str | None:
    try:
        status = source.stat()
        if status.st_size > MOST_BYTES or status.st_mtime_ns > stacks.stat().st_mtime_ns:
            return None
        return source.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
