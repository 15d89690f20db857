"""Cut a stream of JSON text into pieces of whole events, without ever holding the document.

The cut is a guess (``},{`` near a mark) that decoding then proves: text cut inside a string or a
nested list does not decode, and another place is tried. All fallbacks are linear in the text:
what cannot be cut yet is tried again only when it has doubled, and broken text is gone through
once, event by event.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from whyidle.importers._event_decoding import DecodeAttempt, decode_text
from whyidle.importers._event_types import Event

PIECE_BYTES = 1 << 18
"""small enough that the text, the events and the columns of one piece stay in the cache"""
HEADER_LIMIT = 64 << 20
EVENT_LIMIT = 64 << 20
_SALVAGE_BYTES = 8 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_CLOSING = re.compile(rb'(?P<list>\}\s*\])\s*(?:\}\s*$|,\s*"\w+"\s*:)')
_SPACE = b" \t\r\n"
_TRIES = 3

Read = Callable[[int], bytes]
Piece = tuple[list[Event], bytes]


class JsonChunks:
    """Iterates over (events, their text) of ``traceEvents``.

    Afterwards ``header`` holds the other top-level keys, ``lost`` says what could not be read
    (None: nothing), and ``cut`` whether the end of the event list is missing.

    Raises:
        LookupError: while iterating, when there is no event list.
    """

    def __init__(self, read: Read, piece_bytes: int = PIECE_BYTES) -> None:
        self._read = read
        self._size = piece_bytes
        self.header: dict[str, Any] = {}
        self.cut = False
        self._skipped = 0
        self._gave_up = ""
        self._before = b""
        self._ended = False

    @property
    def lost_text(self) -> str | None:
        """What could not be read, in plain words."""
        parts = []
        if self._skipped:
            kilobytes = max(1, round(self._skipped / 1000))
            parts.append(f"about {kilobytes} kB of text in the event list is not valid JSON")
        if self._gave_up:
            parts.append(self._gave_up)
        elif self.cut:
            parts.append("the file ends in the middle of its event list")
        return "; ".join(parts) or None

    def __iter__(self) -> Iterator[Piece]:
        buffer = self._skip_header()
        while not self._ended:
            chunk = self._read(max(self._size, len(buffer)))
            buffer += chunk
            if not chunk:
                yield from self._finish_stream(buffer)
                return
            while len(buffer) >= self._size and not self._ended:
                piece, buffer = self._take_chunk(buffer)
                if piece is None:
                    break
                yield piece
        self._parse_trailer(buffer)

    def _skip_header(self) -> bytes:
        buffer, seen = bytearray(self._read(self._size)), 0
        text = bytes(buffer).lstrip(b"\xef\xbb\xbf" + _SPACE)
        if text.startswith(b"["):
            return text[1:]
        while (found := _EVENTS.search(buffer, seen)) is None:
            seen = max(0, len(buffer) - 64)
            chunk = self._read(self._size)
            if not chunk or len(buffer) > HEADER_LIMIT:
                raise LookupError("no traceEvents")
            buffer += chunk
        self._before = bytes(buffer[: found.start()])
        return bytes(buffer[found.end() :])

    def _take_chunk(self, buffer: bytes) -> tuple[Piece | None, bytes]:
        """The next piece and the rest; no piece where more text is needed."""
        near_end = len(buffer) - max(self._size >> 3, len(buffer) >> 3)
        for tries, found in enumerate(_BETWEEN.finditer(buffer, near_end)):
            if tries == _TRIES:
                break
            text = buffer[: found.start() + 1]
            tried = decode_text(text)
            if not tried.short:
                return self._accept_chunk(tried, text, buffer[len(text) :])
        tried = decode_text(buffer, closed=True)
        if tried.events is not None:
            return self._accept_chunk(tried, buffer, b"")
        if len(buffer) >= _SALVAGE_BYTES:
            last = _last_between(buffer)
            if last is not None:
                return self._accept_chunk(
                    DecodeAttempt(None), buffer[: last.start() + 1], buffer[last.end() - 1 :]
                )
        if len(buffer) >= EVENT_LIMIT:
            self._give_up(f"an event larger than {EVENT_LIMIT >> 20} MB, and everything after it")
            return None, b""
        return None, buffer

    def _accept_chunk(self, tried: DecodeAttempt, text: bytes, rest: bytes) -> tuple[Piece, bytes]:
        if tried.events is None:
            events, kept, after = self._salvage_events(text)
        elif tried.end is None:
            events, kept, after = tried.events, text, b""
        else:
            self._ended = True
            events, kept, after = tried.events, text[: tried.end - 1], text[tried.end :]
        return (events, kept), after + rest if self._ended else rest.lstrip(_SPACE + b",")

    def _give_up(self, why: str) -> None:
        self._gave_up, self._ended, self.cut = why, True, True

    def _salvage_events(self, text: bytes) -> tuple[list[Event], bytes, bytes]:
        """Go through broken text once, event by event: (events, their text, what follows the
        end of the list if that was met). Misses in a row make ever larger leaps."""
        bounds = [0, *(found.end() - 1 for found in _BETWEEN.finditer(text)), len(text)]
        events: list[Event] = []
        kept: list[bytes] = []
        at, misses = 0, 0
        while at < len(bounds) - 1:
            step, tried, segment = _first_whole(text, bounds, at)
            if tried.events is None:
                leap = min(1 << min(misses, 10), len(bounds) - 1 - at)
                self._skipped += bounds[at + leap] - bounds[at]
                at, misses = at + leap, misses + 1
                continue
            at, misses = at + step, 0
            events += tried.events
            if tried.end is not None:
                self._ended = True
                kept.append(segment[: tried.end - 1])
                after = bounds[at] - len(segment) + tried.end
                return events, b",".join(filter(None, kept)), text[after:]
            kept.append(segment.rstrip(_SPACE + b","))
        return events, b",".join(kept), b""

    def _finish_stream(self, buffer: bytes) -> Iterator[Piece]:
        """The stream is at its end: what is left is the last piece and the trailer."""
        text = buffer.rstrip(_SPACE + b"\x00")
        tried = decode_text(text, closed=True)
        if tried.events is not None and tried.end is not None:
            yield tried.events, text[: tried.end - 1]
            self._parse_trailer(text[tried.end :])
            return
        tried = decode_text(text.rstrip(_SPACE + b","))
        if tried.events is not None and tried.end is None:
            self.cut = True
            yield tried.events, text.rstrip(_SPACE + b",")
        else:
            last = _last_between(text)
            before = self._skipped
            events, kept, after = self._salvage_events(text)
            self.cut = not self._ended
            tail = len(text) - (last.end() - 1 if last else 0)
            closing = None if last is None else _CLOSING.search(text, last.end() - 1)
            if self.cut and closing is not None:
                self.cut, after = False, text[closing.end("list") :]
            elif self.cut and self._skipped - before == tail:
                self._skipped = before  # only the event that the cut went through
            yield events, kept
            text = after
        self._parse_trailer(b"" if self.cut else text)

    def _parse_trailer(self, after: bytes) -> None:
        """Parse the other top-level keys, before and after the event list."""
        tail = after + self._remaining_text()
        if not self._before:
            return  # the document is the bare list
        self.header = _parse_keys(self._before + b'"traceEvents":[]' + tail)
        if not self.header:
            self.header = _parse_keys(self._before.rstrip(_SPACE + b",") + b"}")
            if not self.cut:
                self._gave_up = "what follows the event list is cut short or damaged"

    def _remaining_text(self) -> bytes:
        parts, size = [], 0
        while not self.cut and size < HEADER_LIMIT and (chunk := self._read(self._size)):
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)


def _parse_keys(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_between(text: bytes) -> re.Match[bytes] | None:
    """The last place where one event may end and the next begin."""
    window = 1 << 12
    while True:
        start = max(0, len(text) - window)
        found = deque(_BETWEEN.finditer(text, start), maxlen=1)
        if found or start == 0:
            return found[0] if found else None
        window *= 8


def _first_whole(text: bytes, bounds: list[int], at: int) -> tuple[int, DecodeAttempt, bytes]:
    """Decode from one bound, joining what follows while the text stops inside a value."""
    for step in range(1, _TRIES + 1):
        if at + step >= len(bounds):
            break
        end = bounds[at + step]
        last = at + step == len(bounds) - 1
        segment = text[bounds[at] : end]
        tried = decode_text(segment.rstrip(_SPACE + b","))
        if tried.events is not None or not tried.short or last:
            return step, tried, segment
    return 1, DecodeAttempt(None), b""
