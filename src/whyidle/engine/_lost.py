"""Evidence that could not be written while a command ran, mostly because a disk is full."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

UNTOLD = "why could not be written down"
_REFUSED = re.compile(r"switched off: writing: \w+: \[Errno (\d+)\]")


def lost(recording: Path, faults: Sequence[str]) -> str:
    """Why a process could not write what was seen of it, where that is known; else empty. A full
    disk takes the notes of faults as well, so it is also looked at itself."""
    if full(recording):
        return f"No space is left in {recording}"
    refused = next((found for note in faults if (found := _REFUSED.search(note))), None)
    if refused is not None:
        return f"{os.strerror(int(refused[1]))}: {recording}"
    if any(UNTOLD in note for note in faults):
        return f"Nothing more could be written to {recording}"
    return ""


def untold(recording: Path) -> str:
    """Of a fault whose note came to nothing: its file is there, and empty."""
    return f"{UNTOLD}, for no space is left in {recording}" if full(recording) else UNTOLD


def full(folder: Path) -> bool:
    """Whether nothing more fits there: no block, or no file. Quotas are not seen."""
    try:
        room = os.statvfs(folder)
    except (OSError, AttributeError):  # it is gone; or this is Windows
        return False
    return room.f_bavail == 0 or (room.f_files > 0 and room.f_favail == 0)
