"""Reads a recording's text a second time, in pieces: plain, gzip or a member of a zip."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO

from isal import igzip

from whyidle.errors import InputError

PIECE_BYTES = 1 << 16
"""the most text that is lost where a compressed file is cut short"""


def read_pieces(source: str) -> Iterator[bytes]:
    """Read the text of a source (a path or ``archive.zip!member``) in pieces, as far as a damaged
    file can be decompressed.

    Raises:
        InputError: the file can no longer be opened.
    """
    with ExitStack() as stack:
        try:
            text = _open_source(source, stack)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(
                f"Cannot read {source} a second time.",
                why=f"{getattr(error, 'strerror', None) or error}.",
                hint="Keep the recording until its annotated copy is written.",
            ) from error
        while piece := _decode_text(text):
            yield piece


def _open_source(source: str, stack: ExitStack) -> IO[bytes]:
    path, _, member = source.partition("!") if not Path(source).exists() else (source, "", "")
    raw: IO[bytes]
    if member:
        archive = stack.enter_context(zipfile.ZipFile(path))
        raw = stack.enter_context(archive.open(member))
    else:
        raw = Path(path).open("rb")  # noqa: SIM115  # the stack closes it
        stack.callback(raw.close)
    magic = raw.read(2)
    raw.seek(0)
    if magic != b"\x1f\x8b":
        return raw
    return stack.enter_context(closing(igzip.open(raw, "rb")))  # type: ignore[no-untyped-call]


def _decode_text(text: IO[bytes]) -> bytes:
    try:
        return text.read1(PIECE_BYTES)  # type: ignore[attr-defined]  # all have it
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        return b""
