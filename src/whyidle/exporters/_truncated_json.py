"""Closes an event list that stops in the middle, after its last whole event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_TAIL_BYTES = 1 << 20
_EVENT = re.compile(r"\{(?=\s*\")")
_BETWEEN = re.compile(r"\s*,?\s*")
_DECODER = json.JSONDecoder(strict=False)


def close_event_list(text: Iterator[bytes], ending: bytes) -> Iterator[bytes]:
    """The text of an event list up to its last whole event, then ``ending``.

    Only the last megabyte or two are held back and looked into; what comes before passes through.
    """
    tail, at_start = bytearray(), True
    for piece in text:
        tail += piece
        if len(tail) > 2 * _TAIL_BYTES:
            yield bytes(tail[:-_TAIL_BYTES])
            del tail[:-_TAIL_BYTES]
            at_start = False
    yield bytes(tail[: _find_last_event(tail, at_start)]) + ending


def _find_last_event(tail: bytearray, at_start: bool) -> int:
    """Where the last whole event ends. Where the list began before the tail, a place is taken for
    the start of an event if from there events follow one another up to the cut."""
    text = tail.decode("latin-1")  # one character per byte, so that places are the same
    if at_start:
        return _decode_event_run(text, 0)[0]
    for found in _EVENT.finditer(text):
        end, rest = _decode_event_run(text, found.start())
        if end > found.start() and text[rest : rest + 1] in ("", "{"):
            return end
    return 0


def _decode_event_run(text: str, at: int) -> tuple[int, int]:
    """Decode events one after another: (end of the last, start of what is not one)."""
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
