"""Ranges of a trace's text, which several processes read at the same time. Each begins and ends at
the first boundary between events at or after a fixed place. That is a guess: where the text of a
range does not decode completely, it is not whole, and the file is read in one instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from whyidle.readers._events.event_tables import EventTables, TableParts
from whyidle.readers._events.json_chunks import BETWEEN, BLANKS, EVENT_LIMIT, JsonChunks
from whyidle.readers._files.byte_stream import ByteStream

RANGE_BYTES = 8 << 20
"""decoding takes about 40 ms, sending the columns about 2 ms"""
_STEP_BYTES = 1 << 20
_BEYOND_BYTES = 1 << 14
"""text beyond a place that holds the next boundary"""
_DOCUMENT = b'{"traceEvents":[', b"]}"
_BARE_LIST = b"[", b"]"


class RangeEvents(NamedTuple):
    """The events of a range. ``begin`` and ``end`` (where the next range begins) are places in the
    text, ``position`` is one in the file on disk."""

    begin: int
    end: int
    parts: TableParts
    header: dict[str, Any]
    is_whole: bool
    is_last: bool
    position: int


class RangeReader:
    """Reads ranges of one file, in ascending order.

    Raises:
        InputError: the file cannot be opened.
    """

    def __init__(self, path: Path, member: str | None) -> None:
        self._position = 0
        self._stream = ByteStream(path, member, self._note_position)
        self._text, self._offset = self._stream.read(_STEP_BYTES), 0
        bare = self._text.lstrip(BLANKS).startswith(b"[")
        self._before, self._after = _BARE_LIST if bare else _DOCUMENT

    def _note_position(self, done: int, _: int) -> None:
        self._position = done

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def read_range(self, number: int) -> RangeEvents | None:
        """Return the events of a range; None if the text ends before it."""
        if number:
            self._skip_to(number * RANGE_BYTES)
            first = self._find_boundary(number * RANGE_BYTES)
            if first is None:
                return None
            self._skip_to(first[1])
        begin = self._offset
        bound = self._find_boundary(max(begin, (number + 1) * RANGE_BYTES))
        length = None if bound is None else bound[0] - begin
        ends = self._before if number else b"", self._after if bound else b""
        pieces = JsonChunks(_Parts(ends[0], memoryview(self._text)[:length], ends[1]).read)
        tables, lost = EventTables(), True
        try:
            for events, piece in pieces:
                tables.add_piece(events, piece)
            lost = bool(pieces.lost_text or pieces.cut or self._stream.broken)
        except LookupError:
            pass
        return RangeEvents(
            begin=begin,
            end=bound[1] if bound else begin + len(self._text),
            parts=tables.export_parts(),
            header=pieces.header,
            is_whole=not lost and (bound is None or pieces.tail == self._after[1:]),
            is_last=bound is None,
            position=self._position,
        )

    def _find_boundary(self, mark: int) -> tuple[int, int] | None:
        """The end of one event and the start of the next, the first at or after a place."""
        while (missing := mark - self._offset - len(self._text)) >= 0:
            if not self._read_on(missing + _BEYOND_BYTES):
                break
        while (match := BETWEEN.search(self._text, mark - self._offset)) is None:
            if len(self._text) > EVENT_LIMIT or not self._read_on(_STEP_BYTES):
                return None
        return self._offset + match.start() + 1, self._offset + match.end() - 1

    def _skip_to(self, place: int) -> None:
        """Drop the text before a place."""
        while (beyond := place - self._offset - len(self._text)) > 0:
            self._offset, self._text = self._offset + len(self._text), b""
            skipped = self._stream.skip(min(beyond, _STEP_BYTES))
            self._offset += skipped
            if not skipped:
                return
        self._text, self._offset = self._text[place - self._offset :], place

    def _read_on(self, size: int) -> bool:
        chunk = self._stream.read(size)
        self._text = self._text + chunk if self._text else chunk
        return bool(chunk)


class _Parts:
    """Texts that are read as one, without joining them."""

    def __init__(self, *parts: bytes | memoryview) -> None:
        self._parts = [memoryview(part) for part in parts]

    def read(self, size: int) -> bytes:
        """Return the next bytes of one part; empty at the end of all."""
        while self._parts and not self._parts[0]:
            self._parts.pop(0)
        if not self._parts:
            return b""
        chunk, self._parts[0] = self._parts[0][:size], self._parts[0][size:]
        return bytes(chunk)
