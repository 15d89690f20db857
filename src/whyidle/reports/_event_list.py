"""The rest of a Chrome trace, from the first event of its list on, as valid JSON.

The text passes through unchanged where it is valid. What tools write that is not (backslashes of
Windows paths, control characters, NaN, bytes that are not UTF-8) is repaired; what cannot be read
is left out, and a list that was cut short is closed after its last complete event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

_PIECE_BYTES = 1 << 20
_MOST_BYTES = 64 << 20
"""of text without a complete event; more is left out"""
_TRIES = 16
_BETWEEN = re.compile(rb"\}(\s*,\s*)(?=\{\s*\")")
"""what stands between two events, and now and then between objects within one"""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_ESCAPE = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|[\\\x00-\x1f]')
_SPACE = re.compile(r"[\s,]*")
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_DOCUMENT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def valid_event_list(text: Iterator[bytes], *, bare: bool) -> Iterator[bytes]:
    """The text that follows the opening bracket of the event list, made valid, in pieces. ``bare``
    if the list is the whole document."""
    buffer, between = b"", b""
    for piece in text:
        buffer += piece
        if len(buffer) < _PIECE_BYTES:
            continue
        part = _valid_part(buffer)
        if part is not None:
            yield between + buffer[: part[0]]
            between, buffer = buffer[part[0] : part[1]], buffer[part[1] :]
            continue
        events, buffer, ended = _salvage(buffer)
        if events:
            yield between + b",\n".join(events)
            between = b",\n"
        if ended:
            yield _close(buffer + b"".join(text), bare=bare)
            return
        buffer = buffer[-_PIECE_BYTES:] if len(buffer) > _MOST_BYTES else buffer
    yield from _last_pieces(buffer, between, bare=bare)


def valid_head(head: bytes) -> bytes:
    """The text up to the opening bracket of the event list, made valid."""
    head = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"["):
        return head
    for text in (head, repair(head)):
        if _is_valid(text + b"]}", _RAW_DOCUMENT):
            return text
    return b'{"traceEvents": ['


def repair(text: bytes) -> bytes:
    """Replace what JSON forbids within strings, and constants that it does not have."""
    decoded = text.decode("utf-8", "replace").encode()
    return _STRING.sub(_repair_token, decoded)


def _repair_token(match: re.Match[bytes]) -> bytes:
    token = match[0]
    if not token.startswith(b'"'):
        return b"null"
    return b'"' + _ESCAPE.sub(_repair_escape, token[1:-1]) + b'"'


def _repair_escape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return match[0]
    return b"\\\\" if match[0] == b"\\" else b"\\u%04x" % match[0][0]


def _is_valid(text: bytes, decoder: msgspec.json.Decoder[Any]) -> bool:
    try:
        text.decode("utf-8")
        decoder.decode(text)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return False
    return True


def _valid_part(buffer: bytes) -> tuple[int, int] | None:
    """(end of the last event up to which all are valid, start of the event after it)."""
    late = list(_BETWEEN.finditer(buffer, max(0, len(buffer) - (_PIECE_BYTES >> 4))))
    for match in (late or list(_BETWEEN.finditer(buffer)))[: -_TRIES - 1 : -1]:
        end = match.start() + 1
        if _is_valid(b"[" + buffer[:end] + b"]", _RAW_LIST):
            return end, match.end()
    return None


def _salvage(buffer: bytes, *, last: bool = False) -> tuple[list[bytes], bytes, bool]:
    """(complete events, text after them, whether the list has ended)."""
    text, events, at = repair(buffer).decode(), list[bytes](), 0
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches nothing too
        if text[at : at + 1] in ("", "]"):
            return events, text[at + 1 :].encode(), text[at : at + 1] == "]"
        try:
            event, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            following = re.search(r"\}\s*,\s*(?=\{\s*\")", text[at:])
            if following is None:
                return events, b"" if last else text[at:].encode(), False
            at += following.end()
            continue
        if isinstance(event, dict):
            events.append(text[at:end].encode())
        at = end


def _last_pieces(buffer: bytes, between: bytes, *, bare: bool) -> Iterator[bytes]:
    opening, decoder = (b"[", _RAW_LIST) if bare else (b'{"":[', _RAW_DOCUMENT)
    for text in (buffer, repair(buffer)):
        if _is_valid(opening + text, decoder):
            is_end = text.lstrip().startswith(b"]")
            yield text if is_end else between + text
            return
    events, rest, ended = _salvage(buffer, last=True)
    if events:
        yield between + b",\n".join(events)
    yield _close(rest if ended else b"", bare=bare)


def _close(rest: bytes, *, bare: bool) -> bytes:
    """The end of the list and of the document, with what follows the list if that is valid."""
    if bare:
        return b"]"
    for text in (rest, repair(rest)):
        if _is_valid(b'{"":[]' + text, _RAW_DOCUMENT):
            return b"]" + text
    return b"]}"
