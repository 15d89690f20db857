"""Opens recordings as byte streams: plain, gzip, or a member of a zip; with a stated limit."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from isal import igzip

from whyidle.errors import InputError

LIMIT_BYTES = 64 << 30
"""the most decompressed text that is read from one file; a gzip bomb stops here"""

Progress = Callable[[int, int], None]


class Stream:
    """Reads decompressed bytes, counts them, and remembers where the compressed file broke off."""

    def __init__(self, path: Path, member: str | None = None, progress: Progress | None = None) -> None:
        self.broken: str | None = None
        self.count = 0
        self.path = path
        self._progress = progress
        try:
            self._raw = _raw(path, member)
            self.size = _size(path, member)
            magic = self._raw.read(2)
            self._raw.seek(0)
        except OSError as error:
            raise InputError(
                f"Cannot read {path}.", why=f"{error.strerror or error}.", hint="Check the path."
            ) from error
        self._text: BinaryIO = (
            igzip.open(self._raw, "rb") if magic == b"\x1f\x8b" else self._raw  # type: ignore[assignment]
        )

    def read(self, size: int) -> bytes:
        """The next bytes; empty at the end, where compression broke, or at the limit."""
        if self.broken:
            return b""
        if self.count >= LIMIT_BYTES:
            self.broken = f"reading stopped at {LIMIT_BYTES >> 30} GiB of text"
            return b""
        try:
            chunk = self._text.read(size)
        except (OSError, EOFError, igzip.IGzipFile.__mro__[0] if False else ValueError) as error:
            self.broken = f"the compressed file is cut short or damaged ({error})"
            return b""
        except Exception as error:  # isal raises its own error class for damaged data
            if type(error).__name__ not in ("IsalError", "error", "BadGzipFile"):
                raise
            self.broken = f"the compressed file is damaged ({error})"
            return b""
        self.count += len(chunk)
        if self._progress is not None:
            self._progress(self._raw.tell(), self.size)
        return chunk

    def close(self) -> None:
        """Close the file."""
        self._text.close()
        self._raw.close()


def _raw(path: Path, member: str | None) -> BinaryIO:
    if member is None:
        return path.open("rb")
    with zipfile.ZipFile(path) as archive:
        return io.BytesIO(archive.read(member))


def _size(path: Path, member: str | None) -> int:
    if member is None:
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(member).compress_size
