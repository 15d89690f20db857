"""Evidence that could not be written while a command ran, mostly because a disk is full."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

UNTOLD = "why could not be written down"
BLOCK = 4096
"""what most file systems give out at once, bytes"""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = re.compile(r"switched off: writing: \w+: \[Errno (\d+)\]")


def explain_loss(recording: Path, faults: Sequence[str]) -> str:
    """Why a process could not write what was seen of it, where that is known; else empty. A full
    disk takes the notes of faults as well, so it is also looked at itself."""
    if is_disk_full(recording):
        return f"No space is left in {recording}"
    refused = next((found for note in faults if (found := _REFUSED.search(note))), None)
    if refused is not None:
        return f"{os.strerror(int(refused[1]))}: {recording}"
    if any(UNTOLD in note for note in faults):
        return f"Nothing more could be written to {recording}"
    return ""


def unreadable_fault(recording: Path) -> str:
    """Of a fault whose note came to nothing: its file is there, and empty."""
    return f"{UNTOLD}, for no space is left in {recording}" if is_disk_full(recording) else UNTOLD


def is_disk_full(folder: Path) -> bool:
    """Whether nothing more fits there. It is tried: what a file system tells of its room knows
    neither quotas nor what it keeps back for whom."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(BLOCK))
            file.flush()
    except OSError as error:
        return error.errno in _NO_ROOM
    return False
