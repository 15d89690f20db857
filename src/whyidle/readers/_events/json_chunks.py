"""Division of a JSON stream into pieces of whole events without holding the document. The division
is a guess (``},{`` near a mark) that decoding confirms: text cut inside a string or a nested list
does not decode, and another place is tried. All fallbacks are linear: text that cannot be divided
yet is retried only when it has doubled, and broken text is processed once, event by event."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from whyidle.readers._events.event_decoding import DecodeAttempt, decode_text
from whyidle.readers._events.event_types import Event

PIECE_BYTES = 1 << 18
"""small enough that text, events and columns of one piece stay in the cache"""
_HEADER_LIMIT = 64 << 20
_EVENT_LIMIT = 64 << 20
_SALVAGE_BYTES = 8 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_CLOSING = re.compile(rb'(?P<list>\}\s*\])\s*(?:\}\s*$|,\s*"\w+"\s*:)')
_SPACE = b" \t\r\n"
_BLANKS = b"\xef\xbb\xbf" + _SPACE
"""what may precede a document"""
_TRIES = 3

Read = Callable[[int], bytes]
Piece = tuple[list[Event], bytes]


class JsonChunks:
    """Iterates over (events, their text) of ``traceEvents``.

    Afterwards ``header`` holds the other top-level keys, ``lost_text`` describes unreadable text
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
        buffer, searched = bytearray(self._read(self._size)), 0
        text = bytes(buffer).lstrip(_BLANKS)
        if text.startswith(b"["):
            return text[1:]
        while (match := _EVENTS.search(buffer, searched)) is None:
            searched = max(0, len(buffer) - 64)
            chunk = self._read(self._size)
            if not chunk or len(buffer) > _HEADER_LIMIT:
                raise LookupError("no traceEvents")
            buffer += chunk
        self._before = bytes(buffer[: match.start()])
        return bytes(buffer[match.end() :])

    def _take_chunk(self, buffer: bytes) -> tuple[Piece | None, bytes]:
        """The next piece and the rest; no piece if more text is needed."""
        near_end = len(buffer) - max(self._size >> 3, len(buffer) >> 3)
        for tries, match in enumerate(_BETWEEN.finditer(buffer, near_end)):
            if tries == _TRIES:
                break
            text = buffer[: match.start() + 1]
            attempt = decode_text(text)
            if not attempt.short:
                return self._accept_chunk(attempt, text, buffer[len(text) :])
        attempt = decode_text(buffer, closed=True)
        if attempt.events is not None:
            return self._accept_chunk(attempt, buffer, b"")
        if len(buffer) >= _SALVAGE_BYTES:
            last = _last_between(buffer)
            if last is not None:
                text, rest = buffer[: last.start() + 1], buffer[last.end() - 1 :]
                return self._accept_chunk(DecodeAttempt(None), text, rest)
        if len(buffer) >= _EVENT_LIMIT:
            self._give_up(f"an event larger than {_EVENT_LIMIT >> 20} MB, and everything after it")
            return None, b""
        return None, buffer

    def _accept_chunk(
        self, attempt: DecodeAttempt, text: bytes, rest: bytes
    ) -> tuple[Piece, bytes]:
        if attempt.events is None:
            events, event_text, after = self._salvage_events(text)
        elif attempt.end is None:
            events, event_text, after = attempt.events, text, b""
        else:
            self._ended = True
            events, event_text, after = attempt.events, text[: attempt.end - 1], text[attempt.end :]
        return (events, event_text), after + rest if self._ended else rest.lstrip(_SPACE + b",")

    def _give_up(self, why: str) -> None:
        self._gave_up, self._ended, self.cut = why, True, True

    def _salvage_events(self, text: bytes) -> tuple[list[Event], bytes, bytes]:
        """Read broken text event by event: (events, their text, text after the list's end).
        Consecutive failures skip increasingly many events."""
        bounds = [0, *(match.end() - 1 for match in _BETWEEN.finditer(text)), len(text)]
        events: list[Event] = []
        texts: list[bytes] = []
        at, misses = 0, 0
        while at < len(bounds) - 1:
            step, attempt, segment = _first_whole(text, bounds, at)
            if attempt.events is None:
                leap = min(1 << min(misses, 10), len(bounds) - 1 - at)
                self._skipped += bounds[at + leap] - bounds[at]
                at, misses = at + leap, misses + 1
                continue
            at, misses = at + step, 0
            events += attempt.events
            if attempt.end is not None:
                self._ended = True
                texts.append(segment[: attempt.end - 1])
                after = bounds[at] - len(segment) + attempt.end
                return events, b",".join(filter(None, texts)), text[after:]
            texts.append(segment.rstrip(_SPACE + b","))
        return events, b",".join(texts), b""

    def _finish_stream(self, buffer: bytes) -> Iterator[Piece]:
        text = buffer.rstrip(_SPACE + b"\x00")
        attempt = decode_text(text, closed=True)
        if attempt.events is not None and attempt.end is not None:
            yield attempt.events, text[: attempt.end - 1]
            self._parse_trailer(text[attempt.end :])
            return
        attempt = decode_text(text.rstrip(_SPACE + b","))
        if attempt.events is not None and attempt.end is None:
            self.cut = True
            yield attempt.events, text.rstrip(_SPACE + b",")
        else:
            last = _last_between(text)
            before = self._skipped
            events, event_text, after = self._salvage_events(text)
            self.cut = not self._ended
            tail = len(text) - (last.end() - 1 if last else 0)
            closing = None if last is None else _CLOSING.search(text, last.end() - 1)
            if self.cut and closing is not None:
                self.cut, after = False, text[closing.end("list") :]
            elif self.cut and self._skipped - before == tail:
                self._skipped = before  # only the event that the cut went through
            yield events, event_text
            text = after
        self._parse_trailer(b"" if self.cut else text)

    def _parse_trailer(self, after: bytes) -> None:
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
        while not self.cut and size < _HEADER_LIMIT and (chunk := self._read(self._size)):
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)


def _parse_keys(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _last_between(text: bytes) -> re.Match[bytes] | None:
    window = 1 << 12
    while True:
        start = max(0, len(text) - window)
        matches = deque(_BETWEEN.finditer(text, start), maxlen=1)
        if matches or start == 0:
            return matches[0] if matches else None
        window *= 8


def _first_whole(text: bytes, bounds: list[int], at: int) -> tuple[int, DecodeAttempt, bytes]:
    """Decode from one bound, joining the next segment while the text stops inside a value."""
    for step in range(1, _TRIES + 1):
        if at + step >= len(bounds):
            break
        end = bounds[at + step]
        last = at + step == len(bounds) - 1
        segment = text[bounds[at] : end]
        attempt = decode_text(segment.rstrip(_SPACE + b","))
        if attempt.events is not None or not attempt.short or last:
            return step, attempt, segment
    return 1, DecodeAttempt(None), b""
