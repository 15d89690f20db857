"""Keeps the user's source files that a recording names with the recording.

What is concluded from them stays the same whatever happens to the files later. A file is kept when
the recording is first diagnosed, which is when its command ends, as long as nobody has changed it
since; what could not be kept then is not looked for again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from whyidle.importers import probe
from whyidle.importers._loader_records import read_document, read_lines
from whyidle.model.frames import own_files
from whyidle.store.atomic_write import write_atomic

MOST_FILES: Final = 50
MOST_BYTES: Final = 1 << 20
"""of one file; a longer one is not kept"""


def keep_sources(recording: Path) -> None:
    """Write ``sources.json``: the user's files that stacks of training processes name -> their text
    (None: it could not be kept). What it holds already stays as it is."""
    kept: dict[str, str | None] = read_document(recording / probe.SOURCES)
    before = len(kept)
    for process in (*probe.trained_processes(recording), *probe.untrained_processes(recording)):
        stacks = recording / f"{process}.stacks"
        for name in own_files(read_lines(stacks)):
            if name not in kept:
                kept[name] = _unchanged_text(Path(name), stacks) if len(kept) < MOST_FILES else None
    if len(kept) > before:
        with suppress(OSError):  # a full disk, or a folder that may only be read
            write_atomic(recording / probe.SOURCES, json.dumps(kept).encode())


def _unchanged_text(source: Path, stacks: Path) -> str | None:
    """The text of a file that was not changed after its lines were last recorded."""
    try:
        status = source.stat()
        if status.st_size > MOST_BYTES or status.st_mtime_ns > stacks.stat().st_mtime_ns:
            return None
        return source.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
