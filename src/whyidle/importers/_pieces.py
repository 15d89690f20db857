"""Cut a stream of JSON text into pieces of whole events, without ever holding the document.

The cut is a guess (``},{`` near a mark) that decoding then proves: a piece cut inside a string or
a nested list does not decode, and the next candidate is tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

PIECE_BYTES = 1 << 20
HEADER_LIMIT = 64 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_CLOSING = re.compile(rb"\}\s*\]")
_TRIES = 48

Read = Callable[[int], bytes]
Decode = Callable[[bytes], Any]


class Pieces:
    """Iterates over decoded pieces of ``traceEvents``; afterwards ``header`` holds the other
    top-level keys' text and ``lost`` says what could not be read (None: nothing)."""

    def __init__(self, read: Read, decode: Decode, piece_bytes: int = PIECE_BYTES) -> None:
        self._read = read
        self._decode = decode
        self._size = piece_bytes
        self.header: dict[str, Any] = {}
        self.lost: str | None = None
        self.cut = False
        self._before = b""

    def __iter__(self) -> Iterator[Any]:
        buffer = self._skip_header()
        done = False
        while not done:
            chunk = self._read(self._size)
            buffer += chunk
            if not chunk:
                yield from self._finish(buffer)
                return
            while len(buffer) >= self._size:
                piece, rest, done = self._cut(buffer)
                if piece is None:
                    break  # no event ends in here yet: read on
                buffer = rest
                yield piece
                if done:
                    self._trailer(buffer)
                    return
            if len(buffer) > HEADER_LIMIT:
                self.lost = "an event larger than 64 MB, and everything after it"
                return

    def _skip_header(self) -> bytes:
        buffer = self._read(self._size)
        while True:
            text = buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
            if text.startswith(b"["):
                return text[1:]
            found = _EVENTS.search(buffer)
            if found:
                self._before = buffer[: found.start()]
                return buffer[found.end() :]
            chunk = self._read(self._size)
            if not chunk or len(buffer) > HEADER_LIMIT:
                raise LookupError("no traceEvents")
            buffer += chunk

    def _cut(self, buffer: bytes) -> tuple[Any | None, bytes, bool]:
        """(decoded piece, rest, whether the event array ended)"""
        tries = 0
        for found in _BETWEEN.finditer(buffer, max(0, self._size - (self._size >> 3))):
            piece = self._attempt(buffer[: found.start() + 1])
            if piece is not None:
                return piece, buffer[found.end() - 1 :], False
            tries += 1
            if tries >= 3:
                break
        return self._cut_slowly(buffer)

    def _cut_slowly(self, buffer: bytes) -> tuple[Any | None, bytes, bool]:
        """The array may end in this buffer, or an event in it may be broken."""
        ended = self._end_of_array(buffer)
        if ended is not None:
            return ended[0], ended[1], True
        if len(buffer) < 2 * self._size:
            return None, buffer, False
        events, rest = self._one_by_one(buffer)
        return events, rest, False

    def _end_of_array(self, buffer: bytes) -> tuple[Any, bytes] | None:
        for tried, found in enumerate(_CLOSING.finditer(buffer)):
            if tried >= _TRIES:
                break
            piece = self._attempt(buffer[: found.start() + 1])
            if piece is not None:
                return piece, buffer[found.end() :]
        return None

    def _attempt(self, text: bytes) -> Any | None:
        try:
            return self._decode(b"[" + text + b"]")
        except ValueError:
            return None

    def _one_by_one(self, buffer: bytes) -> tuple[Any, bytes]:
        """Decode event by event, skipping what does not decode; the last partial event is kept."""
        text = buffer.decode("utf-8", "replace")
        decoder, at, kept, skipped, resume = json.JSONDecoder(), 0, [], 0, 0
        while (at := text.find("{", at)) >= 0:
            try:
                value, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                nxt = text.find("{", at + 1)
                if nxt < 0:
                    break
                skipped += nxt - at
                at = nxt
                continue
            if isinstance(value, dict) and "ph" in value:
                kept.append(json.dumps(value))
            at = resume = end
        if skipped:
            self.lost = "events that are not valid JSON were skipped"
        piece = self._attempt(",".join(kept).encode()) if kept else None
        return piece if piece is not None else [], text[resume:].encode()

    def _finish(self, buffer: bytes) -> Iterator[Any]:
        if not buffer.strip():
            self._trailer(b"")
            return
        empty = buffer.lstrip()
        if empty.startswith(b"]"):
            self._trailer(empty[1:])
            return
        ended = self._end_of_array(buffer)
        if ended is not None:
            yield ended[0]
            self._trailer(ended[1])
            return
        events, rest = self._one_by_one(buffer)
        self.cut = not re.search(rb"\}\s*\]", buffer)
        if self.cut:
            self.lost = "the file ends in the middle: what came after is missing"
        if events:
            yield events
        self._trailer(rest if not self.cut else b"")

    def _trailer(self, after: bytes) -> None:
        tail = after + self._rest()
        for text in (self._before + b'"traceEvents":[]' + tail, self._before.rstrip(b", \r\n\t") + b"}"):
            try:
                found = json.loads(text)
            except (ValueError, RecursionError):
                continue
            self.header = found if isinstance(found, dict) else {}
            return

    def _rest(self) -> bytes:
        parts, size = [], 0
        while size < HEADER_LIMIT and (chunk := self._read(self._size)):
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)
