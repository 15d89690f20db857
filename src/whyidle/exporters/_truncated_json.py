"""Closes a truncated event list after its last complete event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_TAIL_BYTES = 1 << 20
_EVENT = re.compile(r"\{(?=\s*\")")
_BETWEEN = re.compile(r"\s*,?\s*")
_DECODER = json.JSONDecoder(strict=False)


def close_event_list(text: Iterator[bytes], ending: bytes) -> Iterator[bytes]:
    """The text of an event list up to its last complete event, then ``ending``. Only the last two
    megabytes are buffered."""
    tail, at_start = bytearray(), True
    for piece in text:
        tail += piece
        if len(tail) > 2 * _TAIL_BYTES:
            yield bytes(tail[:-_TAIL_BYTES])
            del tail[:-_TAIL_BYTES]
            at_start = False
    yield bytes(tail[: _find_last_event(tail, at_start)]) + ending


def _find_last_event(tail: bytearray, at_start: bool) -> int:
    """The end of the last complete event. If the list began before the tail, an event starts where
    from there on events follow one another up to the cut."""
    text = tail.decode("latin-1")  # one character per byte keeps the offsets
    if at_start:
        return _decode_event_run(text, 0)[0]
    for match in _EVENT.finditer(text):
        end, rest = _decode_event_run(text, match.start())
        if end > match.start() and text[rest : rest + 1] in ("", "{"):
            return end
    return 0


def _decode_event_run(text: str, at: int) -> tuple[int, int]:
    """Decode consecutive events: (end of the last, start of the text after them)."""
    end = at
    while True:
        try:
            event, end_of_event = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return end, at
        if not isinstance(event, dict) or "ph" not in event:
            return end, at
        end = end_of_event
        at = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]  # matches nothing too
