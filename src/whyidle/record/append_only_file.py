"""An append-only file whose errors are contained."""

from __future__ import annotations

import os
from pathlib import Path


class AppendOnlyFile:
    """Appends bytes in one call each, so that all lines but the last are complete after a crash.
    After an error, such as a full disk, nothing more is written.

    Attributes:
        size: bytes written.
        broken: the error; empty if there was none.
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
        """Append; never raises an OSError."""
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
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
