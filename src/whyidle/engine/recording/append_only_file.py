"""A file that only grows, and whose failing fails nothing else."""

from __future__ import annotations

import os
from pathlib import Path


class AppendOnlyFile:
    """Bytes go to the file in one call each, so that a reader or a crash sees whole lines but for
    the last. After an error (a disk that is full, a folder that is gone) nothing more is written.

    Attributes:
        size: bytes written.
        broken: why nothing is written any more; empty while all is well.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self.broken = ""
        self._descriptor = -1
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            self.broken = f"{path}: {error.strerror or error}"

    def write(self, content: bytes) -> None:
        """Append; never raises for what a file system does."""
        if self._descriptor < 0:
            return
        try:
            written = os.write(self._descriptor, content)
            while written < len(content):  # the disk is about to be full
                written += os.write(self._descriptor, content[written:])
        except OSError as error:
            self.broken = error.strerror or str(error)
            self.close()
        else:
            self.size += len(content)

    def close(self) -> None:
        """May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
