"""Decoding of event text, however odd: typed first, then loosely, then repaired. The decoder's
error message distinguishes text that stops in the middle, an event list that ended, and damage; a
test pins the three messages."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import msgspec

from whyidle.readers._events.event_types import Args, Event, to_float

_TYPED = msgspec.json.Decoder(list[Event]).decode
_LOOSE = msgspec.json.Decoder().decode
_BYTE = re.compile(r"\(byte (\d+)\)$")
_NOT_FINITE = re.compile(rb"(?<=[:\[,\s])[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_LONE_SURROGATE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]")
_MEND_BYTES = 4 << 20


class DecodeAttempt(NamedTuple):
    """Result of decoding a text."""

    events: list[Event] | None
    """None: nothing was decoded"""
    end: int | None = None
    """end of the event list, if inside the text"""
    short: bool = False
    """whether the text stops inside a value"""


def decode_text(text: bytes, *, closed: bool = False) -> DecodeAttempt:
    """Decode ``event, event, ...`` or, with ``closed``, a text that closes the list itself."""
    attempt = _attempt(text, closed)
    if attempt.events is None and not attempt.short and len(text) <= _MEND_BYTES:
        repaired = repair_text(text)
        if repaired != text:
            attempt = _attempt(repaired, closed)
            if attempt.end is not None:  # the end in the original: count from the right
                attempt = attempt._replace(end=max(0, len(text) - len(repaired) + attempt.end))
    return attempt


def _attempt(text: bytes, closed: bool) -> DecodeAttempt:
    bracketed = b"[" + text if closed else b"[" + text + b"]"
    try:
        events = _decode_strict(bracketed)
        return DecodeAttempt(events, len(text.rstrip()) if closed else None)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = str(error)
    except (RecursionError, ValueError):
        return DecodeAttempt(None)
    position = _BYTE.search(message)
    if position is None:
        return DecodeAttempt(None, short="truncated" in message)
    offset = int(position[1])
    if "trailing characters" in message:
        end = bracketed.rfind(b"]", 0, offset - 1) + 1  # the message counts the next character too
        if not _AFTER.match(bracketed, end):
            return DecodeAttempt(None)
        return DecodeAttempt(_decode_strict(bracketed[:end]), end - 1)
    return DecodeAttempt(None, short=not closed and offset >= len(bracketed) - 1)


_AFTER = re.compile(rb'\s*(?:$|\}|\]?$|,\s*(?:"|\]?$))')
"""what may follow an event list: another key, or nothing"""


def _decode_strict(text: bytes) -> list[Event]:
    try:
        return _TYPED(text)
    except msgspec.ValidationError:
        values = _LOOSE(text)
    if not isinstance(values, list):
        raise ValueError("not a list of events")
    return [_decode_loosely(value) for value in values if isinstance(value, dict)]


def _decode_loosely(value: dict[str, Any]) -> Event:
    arguments = value.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    fields = zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True)
    args = {field: _fit_field(field, arguments[key]) for field, key in fields if key in arguments}
    ids = {key: value[key] for key in ("pid", "tid") if isinstance(value.get(key), int | str)}
    texts = {key: str(value.get(key, "")) for key in ("ph", "cat", "name")}
    dur = to_float(value.get("dur", 0.0))
    return Event(**texts, **ids, ts=to_float(value.get("ts", math.nan)), dur=dur, args=Args(**args))


def _fit_field(field: str, value: Any) -> Any:
    if field in ("dims", "old_dims", "types"):
        return msgspec.Raw(msgspec.json.encode(value))
    if field in ("stack", "collective", "group"):
        return str(value)
    return value if isinstance(value, int | float | str) else None


def repair_text(text: bytes) -> bytes:
    """Return text with known errors of trace writers repaired: NaN and Infinity, lone backslashes
    (Windows paths), control characters, halves of surrogate pairs, invalid UTF-8."""
    text = text.decode("utf-8", "replace").encode()
    text = _NOT_FINITE.sub(b"null", text)
    text = _ESCAPE.sub(lambda match: match[0] if match[1] else rb"\\", text)
    text = _LONE_SURROGATE.sub(lambda match: match[1] or rb"\ufffd", text)
    return _CONTROL.sub(b" ", text)


class _Stamp(msgspec.Struct, gc=False):
    ts: msgspec.Raw = msgspec.Raw(b"")


_STAMPS = msgspec.json.Decoder(list[_Stamp]).decode
_TIMED = ("X", "i")


def set_exact_times(events: list[Event], text: bytes, origin_us: int) -> None:
    """Set every event's ``ts`` to exact microseconds after ``origin_us``, from the decimal text. A
    double holds 1712195495519689.123 only to a quarter of a microsecond, but the difference to a
    near origin with sufficient precision."""
    try:
        stamps = _STAMPS(b"[" + text + b"]")
    except (ValueError, RecursionError):
        stamps = []
    if len(stamps) != len(events):  # odd text: keep what the double could hold
        for event in events:
            event.ts -= origin_us
        return
    for event, stamp in zip(events, stamps, strict=True):
        if event.ph not in _TIMED:
            continue
        digits, _, fraction = bytes(stamp.ts).partition(b".")
        try:
            event.ts = int(digits) - origin_us + (float(b"." + fraction) if fraction else 0.0)
        except ValueError:  # an exponent, a text, nothing
            event.ts -= origin_us
