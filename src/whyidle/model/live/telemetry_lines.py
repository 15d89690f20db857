r"""Telemetry in a file: ``whyidle/telemetry/1``, append-only lines of JSON.

Every line is a JSON value that ends in a newline:

``{"schema":"whyidle/telemetry/1","clock_ns":C,"unix_ns":U}``
    begins a recording: a moment on its clock (``time.perf_counter_ns``) and in Unix time. A file
    may hold several recordings.
``{"source":S,"facts":{...},"missing":{SIGNAL:[REASON,HOW],...}}``
    constants of a source; a later line of the same source adds to them.
``{"columns":N,"source":S,"keys":[...]}``
    declares the keys of the following rows with number N. Numbers count from 0 in a recording; a
    source whose keys change gets a new number.
``[N,clock_ns,v1,v2,...]``
    one read: ``null`` for a value that could not be read.

A killed process loses at most its last line: a line without newline, with a wrong number of values
or with NUL bytes is counted and skipped. Unknown objects are skipped, since later versions may add
some.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from whyidle.model.live.telemetry import Absent, Reading, Series, Telemetry, Value

SCHEMA: Final = "whyidle/telemetry/1"
MOST_SETS: Final = 64
"""sets of keys whose numbers a writer remembers"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def header_line(clock_ns: int, unix_ns: int) -> bytes:
    """Encode the line that begins a recording."""
    return _encode({"schema": SCHEMA, "clock_ns": clock_ns, "unix_ns": unix_ns}) + b"\n"


def source_line(source: str, facts: Mapping[str, str], missing: Mapping[str, Absent]) -> bytes:
    """Encode the constants of a source."""
    absences = {signal: [absent.reason, absent.how] for signal, absent in missing.items()}
    return _encode({"source": source, "facts": dict(facts), "missing": absences}) + b"\n"


class TelemetryWriter:
    """Encodes rows, and declares their columns whenever these change."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        self._next = 0

    def row_lines(self, source: str, clock_ns: int, reading: Reading) -> bytes:
        """Encode one read. NaN and infinities become null."""
        keys = (source, *reading)
        number = self._numbers.get(keys)
        line = b""
        if number is None:
            if len(self._numbers) >= MOST_SETS:
                self._numbers.clear()
            number = self._numbers[keys] = self._next
            self._next += 1
            line = _encode({"columns": number, "source": source, "keys": keys[1:]}) + b"\n"
        return line + _encode([number, clock_ns, *reading.values()]) + b"\n"


class TelemetryReader:
    """Decodes lines in order."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.missing: dict[str, Absent] = {}
        self.offset_ns: int | None = None  # Unix time minus clock, of the current recording
        self.lost = 0  # lines that could not be read
        self._columns: dict[int, list[str]] = {}

    def read_rows(self, lines: Iterable[bytes]) -> Iterator[tuple[int, Reading]]:
        """Decode every read: its time on the recording's clock, and its values by key."""
        for line in lines:
            content = line.strip(b"\x00\r\n ")
            if not content:
                continue
            row = self._parse_row(content) if line.endswith(b"\n") else None
            if row is None:
                self.lost += 1
            elif row:
                yield row[0], row[1]

    def _parse_row(self, content: bytes) -> tuple[int, Reading] | tuple[()] | None:
        """A read; an empty tuple for another kind of line; None for an unreadable line."""
        try:
            value = _decode(content)
        except msgspec.DecodeError:
            return None
        if isinstance(value, dict):
            return () if self._parse_note(value) else None
        return self._parse_values(value) if isinstance(value, list) else None

    def _parse_note(self, value: dict[str, Any]) -> bool:
        if "columns" in value:
            keys = value.get("keys")
            if not isinstance(keys, list) or not isinstance(value["columns"], int):
                return False
            self._columns[value["columns"]] = [str(name) for name in keys]
        elif "schema" in value:
            clock, unix = value.get("clock_ns"), value.get("unix_ns")
            if not isinstance(clock, int) or not isinstance(unix, int):
                return False
            self.offset_ns = unix - clock
            self._columns.clear()
        elif isinstance(value.get("facts"), dict):
            self.facts.update({str(k): str(v) for k, v in value["facts"].items()})
            self.missing.update(_parse_absences(value.get("missing")))
        return True

    def _parse_values(self, value: list[Any]) -> tuple[int, Reading] | None:
        number, clock, *values = value if len(value) > 1 else (None, None)
        keys = self._columns.get(number) if isinstance(number, int) else None
        if keys is None or len(keys) != len(values) or not isinstance(clock, int):
            return None
        return clock, {key: _parse_number(item) for key, item in zip(keys, values, strict=True)}


def _parse_absences(value: object) -> dict[str, Absent]:
    if not isinstance(value, dict):
        return {}
    pairs = ((str(signal), item) for signal, item in value.items() if isinstance(item, list))
    return {signal: Absent(*map(str, item[:2])) for signal, item in pairs if item}


def _parse_number(value: Any) -> Value:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def gather_series(rows: Iterable[tuple[int, Reading]]) -> dict[str, Series]:
    """Gather reads into series by key; 16 bytes per value."""
    import numpy as np  # noqa: PLC0415  # not for those who only watch

    times: dict[str, array[int]] = {}
    values: dict[str, array[float]] = {}
    for clock, reading in rows:
        for name, value in reading.items():
            if value is not None:
                times.setdefault(name, array("q")).append(clock)
                values.setdefault(name, array("d")).append(value)
    return {
        key: Series(np.array(times[key], dtype=np.int64), np.array(values[key], dtype=np.float64))
        for key in times
    }


def read_telemetry(lines: Iterable[bytes]) -> Telemetry:
    """Decode a file; the offset is that of its last recording."""
    reader = TelemetryReader()
    series = gather_series(reader.read_rows(lines))
    return Telemetry(series, reader.facts, reader.missing, reader.offset_ns, reader.lost)
