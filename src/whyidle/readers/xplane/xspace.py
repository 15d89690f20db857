"""XSpace messages: the planes, lines and events of a profile of TensorFlow or JAX.

A plane is a device or a host, a line one of its streams or threads. Events name their metadata by
number; times are picoseconds from the start of their line.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from whyidle.model.protobuf import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    read_fields,
    read_varint,
    to_signed,
)

Stat = int | float | str
Span = tuple[int, int]
_DOUBLE = struct.Struct("<d")


class EventMetadata(Struct):
    """What all events of one name share."""

    name: str = ""
    display_name: str = ""


class Line(Struct, eq=False):
    """A stream or thread. Columns have a row per event: number of its metadata, start (ps since
    the line's ``start_ns``), length (ps, -1: an instant), and the event's bytes."""

    name: str
    start_ns: int
    metadata: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    length_ps: NDArray[np.int64]
    spans: list[Span]

    @property
    def start(self) -> NDArray[np.int64]:
        """Start of each event, ns."""
        return self.start_ns + self.offset_ps // 1000

    @property
    def end(self) -> NDArray[np.int64]:
        """End of each event, ns."""
        return self.start_ns + (self.offset_ps + np.maximum(self.length_ps, 0)) // 1000


class Plane:
    """A device or a host."""

    def __init__(self, data: bytes, span: Span) -> None:
        self.name = ""
        self.events: dict[int, EventMetadata] = {}
        self._data, self._stat_names = data, dict[int, str]()
        lines: list[Span] = []
        stats: list[Span] = []
        self.entries: list[Span] = []
        """where the metadata of its events stands"""
        for number, wire, start, end in read_fields(data, *span):
            if wire != BYTES:
                continue
            if number == 2:
                self.name = self._text(start, end)
            elif number == 3:
                lines.append((start, end))
            elif number in (4, 5):
                self._add_metadata(number, (start, end))
                self.entries += [(start, end)] if number == 4 else []
            elif number == 6:
                stats.append((start, end))
        self.lines = [line for line in map(self._decode_line, lines) if len(line.metadata)]
        """its lines with events"""
        self.stats = self._decode_stats(stats)

    def event_stats(self, span: Span) -> Mapping[str, Stat]:
        """The values that an event holds, by name; none if they are damaged."""
        try:
            fields = list(read_fields(self._data, *span))
            return self._decode_stats((s, e) for n, wire, s, e in fields if (n, wire) == (4, BYTES))
        except ProtobufError:
            return {}

    def event_name(self, metadata: int) -> str:
        """The name of events by the number of their metadata."""
        shared = self.events.get(metadata)
        return shared.name if shared else ""

    def _text(self, start: int, end: int) -> str:
        return self._data[start : min(end, start + 4096)].decode("utf-8", "replace")

    def _add_metadata(self, number: int, span: Span) -> None:
        """An entry of the map of events (4) or of stats (5)."""
        key, message = 0, None
        for part, wire, start, end in read_fields(self._data, *span):
            if part == 1 and wire == VARINT:
                key = start
            elif part == 2 and wire == BYTES:
                message = (start, end)
        shared = EventMetadata()
        for part, wire, start, end in read_fields(self._data, *message) if message else ():
            if wire != BYTES:
                continue
            if part == 2:
                shared.name = self._text(start, end)
            elif part == 4:
                shared.display_name = self._text(start, end)
        if number == 4:
            self.events[key] = shared
        else:
            self._stat_names[key] = shared.name

    def _decode_stats(self, spans: Iterable[Span]) -> dict[str, Stat]:
        stats: dict[str, Stat] = {}
        for span in spans:
            name, value = "", None
            for number, wire, start, end in read_fields(self._data, *span):
                if number == 1 and wire == VARINT:
                    name = self._stat_names.get(start, "")
                elif number == 2 and wire == FIXED64:
                    (value,) = _DOUBLE.unpack_from(self._data, start)
                elif number in (3, 4) and wire == VARINT:
                    value = to_signed(start) if number == 4 else start
                elif number == 5 and wire == BYTES:
                    value = self._text(start, end)
                elif number == 7 and wire == VARINT:
                    value = self._stat_names.get(start, "")
            if name and value is not None:
                stats[name] = value
        return stats

    def _decode_line(self, span: Span) -> Line:
        name, start_ns, spans = "", 0, []
        for number, wire, start, end in read_fields(self._data, *span):
            if number == 4 and wire == BYTES:
                spans.append((start, end))
            elif number == 3 and wire == VARINT:
                start_ns = to_signed(start)
            elif number in (2, 11) and wire == BYTES and not name:
                name = self._text(start, end)
        columns = _decode_events(self._data, spans)
        return Line(name, start_ns, *columns, spans)


def _decode_events(
    data: bytes, spans: list[Span]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Metadata, offset and length of events. The loop runs for every event of a profile: numbers
    of one byte, and stats, which are skipped, take the short way."""
    numbers, offsets, lengths = array("q"), array("q"), array("q")
    try:
        for start, end in spans:
            at, number, offset, length = start, 0, 0, -1
            while at < end:
                key = data[at]
                if key == 0x22:  # a stat
                    size, at = data[at + 1], at + 2
                    if size >= 0x80:
                        size, at = read_varint(data, at - 1)
                    at += size
                elif key in (0x08, 0x10, 0x18):
                    value, at = read_varint(data, at + 1)
                    if key == 0x08:
                        number = value
                    elif key == 0x10:
                        offset = value
                    else:
                        length = value
                else:  # a field of a later version, or the count of an aggregated event
                    at = next(read_fields(data, at, end))[3]
            if at != end:
                raise ProtobufError("an event ends within a field")
            numbers.append(_clip(number))
            offsets.append(_clip(offset))
            lengths.append(_clip(length))
    except IndexError:
        raise ProtobufError("the file ends within an event") from None
    return np.array(numbers), np.array(offsets), np.array(lengths)


def _clip(value: int) -> int:
    """A number that fits; one of 64 bits is no possible time."""
    return value if value < 1 << 62 else 1 << 62


class Space(Struct):
    """A profile; ``lost`` says what of it could not be read."""

    planes: list[Plane] = field(default_factory=list)
    hostname: str | None = None
    lost: str | None = None

    def plane(self, name: str) -> Plane | None:
        """The plane of a name."""
        return next((plane for plane in self.planes if plane.name == name), None)


def read_space(data: bytes) -> Space:
    """Decode a profile; what follows damage is left out."""
    space = Space()
    try:
        for number, wire, start, end in read_fields(data, 0, len(data)):
            if (number, wire) == (1, BYTES):
                space.planes.append(Plane(data, (start, end)))
            elif (number, wire) == (4, BYTES) and space.hostname is None:
                space.hostname = data[start : min(end, start + 255)].decode("utf-8", "replace")
    except ProtobufError as error:
        space.lost = f"{error}; what follows is not read"
    return space
