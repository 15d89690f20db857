"""Where the operations of compiled programs come from: XLA's programs in a profile of JAX name, for
each operation, the function that was traced and the lines that called it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from msgspec import Struct, field

from whyidle.model.frames import FOREIGN
from whyidle.model.protobuf import BYTES, VARINT, ProtobufError, read_fields

Span = tuple[int, int]
Message = dict[int, list[int | Span]]
_PROGRAM: Final = (2, 5, 6, 1)
"""fields from an entry of the map of events to a program: the event, a stat, its bytes, the
program"""
_BACKWARD: Final = re.compile(r"transpose\(")
_LIBRARY: Final = re.compile(FOREIGN)


class _Frames(Struct):
    """The lines of a program's stack frames; numbers count from 1, and 0 is none."""

    files: list[str] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    """file and line"""
    frames: list[tuple[int, int]] = field(default_factory=list)
    """place and parent"""

    def find_line(self, frame: int) -> str:
        """The innermost line that is not of an installed package, as ``train.py:12``."""
        for _ in range(200):
            if not 0 < frame <= len(self.frames):
                break
            place, frame = self.frames[frame - 1]
            if 0 < place <= len(self.places):
                number, line = self.places[place - 1]
                file = self.files[number - 1] if 0 < number <= len(self.files) else ""
                if file and not _LIBRARY.search(file):
                    return f"{file.rpartition('/')[2]}:{line}"
        return ""


def read_operations(data: bytes, metadata: Iterable[Span]) -> dict[str, str]:
    """The operations of all programs in a profile -> what they are called in a report. One that
    several programs have is left out, and what is damaged.

    Args:
        data: the profile.
        metadata: where the descriptions of programs stand in it.
    """
    found: dict[str, str] = {}
    several: set[str] = set()
    for span in metadata:
        with suppress(ProtobufError, TypeError):
            for program in _descend(data, span, _PROGRAM):
                own = dict(_operations_of(data, program))
                several |= own.keys() & found.keys()
                found |= own
    return {name: label for name, label in found.items() if name not in several}


def _descend(data: bytes, span: Span, path: tuple[int, ...]) -> Iterator[Span]:
    if not path:
        yield span
        return
    for number, wire, start, end in read_fields(data, *span):
        if (number, wire) == (path[0], BYTES):
            yield from _descend(data, (start, end), path[1:])


def _read(data: bytes, span: Span) -> Message:
    message: Message = {}
    for number, wire, start, end in read_fields(data, *span):
        if wire in (BYTES, VARINT):
            message.setdefault(number, []).append(start if wire == VARINT else (start, end))
    return message


def _text(data: bytes, message: Message, number: int) -> str:
    (value,) = message.get(number, [(0, 0)])[:1]
    return data[slice(*value)].decode("utf-8", "replace") if isinstance(value, tuple) else ""


def _number(message: Message, number: int) -> int:
    (value,) = message.get(number, [0])[:1]
    return value if isinstance(value, int) else 0


def _operations_of(data: bytes, program: Span) -> Iterator[tuple[str, str]]:
    parts = _read(data, program)
    frames = _Frames()
    for index in parts.get(17, []):
        assert isinstance(index, tuple)
        _add_frames(data, index, frames)
    for instruction in _descend(data, program, (3, 2)):
        message = _read(data, instruction)
        name = _text(data, message, 1)
        for span in message.get(7, []):
            assert isinstance(span, tuple)
            about = _read(data, span)
            traced = _text(data, about, 2)
            label = traced.rpartition("/")[2]
            line = frames.find_line(_number(about, 15))
            if label and line:
                phase = ", backward" if _BACKWARD.search(traced) else ""
                yield name, f"{label} of {line}{phase}"


def _add_frames(data: bytes, index: Span, frames: _Frames) -> None:
    for number, wire, start, end in read_fields(data, *index):
        if wire != BYTES:
            continue
        if number == 1:
            frames.files.append(data[start:end].decode("utf-8", "replace"))
        elif number == 3:
            place = _read(data, (start, end))
            frames.places.append((_number(place, 1), _number(place, 3)))
        elif number == 4:
            frame = _read(data, (start, end))
            frames.frames.append((_number(frame, 1), _number(frame, 2)))
