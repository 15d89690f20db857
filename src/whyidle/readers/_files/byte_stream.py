"""Byte streams of recordings: plain, gzip, or a member of a zip, with limits."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from isal import igzip
from isal.igzip_lib import IsalError

from whyidle.errors import InputError

_LEAST_CHUNK = 1 << 20
LIMIT_BYTES = 64 << 30
"""largest decompressed text that is read from one file"""
BOMB_BYTES = 256 << 20
BOMB_RATIO = 300
"""a larger ratio of text to file is no recording: real traces shrink 10 to 30 times. Checked once
``BOMB_BYTES`` have been read."""

Progress = Callable[[int, int], None]
DAMAGED: tuple[type[Exception], ...] = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    cast("type[Exception]", IsalError),  # its stub declares an instance
)
_UNOPENED: tuple[type[Exception], ...] = (*DAMAGED, KeyError, NotImplementedError, RuntimeError)


class ByteStream:
    """Reads and counts decompressed bytes of a file or of a zip's ``member``, and records where the
    compressed file is damaged. ``progress`` is called with (bytes read, total bytes) on disk.

    Raises:
        InputError: the file cannot be opened.
    """

    def __init__(
        self, path: Path, member: str | None = None, progress: Progress | None = None
    ) -> None:
        self.broken: str | None = None
        self.count = 0
        self._progress = progress
        self._archive: zipfile.ZipFile | None = None
        try:
            self._raw, self.size = self._open_stream(path, member)
            magic = self._raw.read(2)
            self._raw.seek(0)
        except _UNOPENED as error:
            raise InputError(
                f"Cannot read {path}{'!' + member if member else ''}.",
                why=f"{getattr(error, 'strerror', None) or error}.".replace("..", "."),
                hint="Check the path, and that the file was copied completely.",
            ) from error
        self._text: IO[bytes] = self._raw
        if magic == b"\x1f\x8b":
            self._text = igzip.open(self._raw, "rb")  # type: ignore[no-untyped-call]

    def _open_stream(self, path: Path, member: str | None) -> tuple[IO[bytes], int]:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "It is a folder" if path.is_dir() else "It is not a regular file")
        if member is None:
            return path.open("rb"), status.st_size
        self._archive = zipfile.ZipFile(path)
        info = self._archive.getinfo(member)
        return self._archive.open(info), info.file_size

    def read(self, size: int) -> bytes:
        """Return the next bytes; empty at the end, at damage, or at a limit."""
        parts: list[bytes] = []
        most = max(self.size, _LEAST_CHUNK)  # as much memory is taken at once, whatever there is
        while size > 0 and not self.broken:
            try:
                chunk = self._text.read1(min(size, most))  # type: ignore[attr-defined]  # all three have it
            except DAMAGED as error:
                self.broken = f"the compressed file is cut short or damaged ({error})"
                break
            if not chunk:
                break
            parts.append(chunk)
            size -= len(chunk)
            self.count += len(chunk)
        self._check_limits()
        return b"".join(parts)

    def _check_limits(self) -> None:
        done = self._raw.tell()
        if self.count >= LIMIT_BYTES:
            self.broken = f"reading stopped at {LIMIT_BYTES >> 30} GiB of text"
        elif self.count > BOMB_BYTES and self.count > BOMB_RATIO * max(done, 1):
            self.broken = (
                f"reading stopped at {self.count >> 20} MiB of text, more than {BOMB_RATIO} times "
                "the size of the file, as of a decompression bomb"
            )
        if self._progress is not None:
            self._progress(min(done, self.size), self.size)

    def close(self) -> None:
        """Close the file."""
        for opened in (self._text, self._raw, self._archive):
            if opened is not None:
                opened.close()
