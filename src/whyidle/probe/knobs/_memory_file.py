"""A file object over bytes in memory, as ``open`` would give one: it has a name, and a descriptor
as soon as somebody asks for it, from when on that is what is read."""

from __future__ import annotations

import io
import os
from typing import Any


class Bytes(io.RawIOBase):
    """Below the buffer."""

    def __init__(self, name: Any, data: memoryview) -> None:
        super().__init__()
        self.name = name
        self.mode = "rb"
        self.data = data
        self.at = 0
        self.real: Any = None
        """the file in memory, once it had to be one"""

    def readable(self) -> bool:
        """It is."""
        self._open()
        return True

    def seekable(self) -> bool:
        """It is."""
        self._open()
        return True

    def _open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readinto(self, buffer: Any) -> int:
        """As many as there are, or fit."""
        self._open()
        if self.real is not None:
            return int(self.real.readinto(buffer))
        into = memoryview(buffer).cast("B")
        count = max(0, min(len(into), len(self.data) - self.at))
        into[:count] = self.data[self.at : self.at + count]
        self.at += count
        return count

    def readall(self) -> bytes:
        """The rest."""
        self._open()
        if self.real is not None:
            return bytes(self.real.readall())
        found = bytes(self.data[self.at :])
        self.at += len(found)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As in a file: behind its end as well, never before its beginning."""
        self._open()
        if self.real is not None:
            return int(self.real.seek(offset, whence))
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: len(self.data)}.get(whence)
        if base is None:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if base + offset < 0:
            raise OSError(22, "Invalid argument")
        self.at = base + offset
        return self.at

    def tell(self) -> int:
        """Where it is."""
        return self.seek(0, os.SEEK_CUR)

    def fileno(self) -> int:
        """Of a real file with the same bytes, at the same place."""
        self._open()
        if self.real is None:
            made = os.memfd_create("whyidle", os.MFD_CLOEXEC)
            self.real, at = io.FileIO(made, "r+"), self.at
            self.real.write(self.data)
            self.real.seek(at)
        return int(self.real.fileno())

    def close(self) -> None:
        """As ever; twice is once."""
        if self.real is not None:
            self.real.close()
        super().close()


def open_memory_file(file: Any, mode: str, data: memoryview, text: dict[str, Any]) -> Any:
    """What ``open(file, mode, **text)`` gives."""
    buffered = io.BufferedReader(Bytes(file, data))
    if "b" in mode:
        return buffered
    wrapped: Any = io.TextIOWrapper(buffered, **text)
    wrapped.mode = mode
    return wrapped
