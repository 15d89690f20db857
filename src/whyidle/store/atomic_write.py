"""Writes a file atomically."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file's content in one step; pipes and devices are written directly.

    Raises:
        OSError: the folder is missing or read-only, or the disk is full.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(content)
        return
    path = path.resolve()  # replaces the target of a link
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_read_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
