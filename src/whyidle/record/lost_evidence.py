"""Recognises evidence that could not be written, mostly because a disk is full."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from whyidle.probe.wire import WRITE_FAILED

UNTOLD = "why could not be written down"
BLOCK = 4096  # usual block size of file systems, bytes
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = re.compile(rf"switched off: {WRITE_FAILED}: \w+: \[Errno (\d+)\]")


def explain_loss(recording: Path, faults: Sequence[str]) -> str:
    """Explain why a process could not write its recording; empty if unknown. A full disk also
    prevents notes on faults, so the disk itself is checked."""
    if is_disk_full(recording):
        return f"No space is left in {recording}"
    refused = next((found for note in faults if (found := _REFUSED.search(note))), None)
    if refused is not None:
        return f"{os.strerror(int(refused[1]))}: {recording}"
    if any(UNTOLD in note for note in faults):
        return f"Nothing more could be written to {recording}"
    return ""


def unreadable_fault(recording: Path) -> str:
    """Describe a fault whose file is empty."""
    full = is_disk_full(recording)
    return f"{UNTOLD} because no space is left in {recording}" if full else UNTOLD


def is_disk_full(folder: Path) -> bool:
    """Whether a write fails for lack of space; free space alone ignores quotas and reserves."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(BLOCK))
            file.flush()
    except OSError as error:
        return error.errno in _NO_ROOM
    return False
