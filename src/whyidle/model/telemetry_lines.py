r"""How telemetry stands in a file: ``whyidle/telemetry/1``, append-only lines of JSON.

Every line is a JSON value that ends in a newline; what a line means shows from its first bytes:

``{"schema":"whyidle/telemetry/1","clock_ns":C,"unix_ns":U}``
    begins a recording: a moment on the recording's clock (``time.perf_counter_ns``) and the same
    moment in Unix time. A file that several recordings were appended to holds several.
``{"source":S,"facts":{...},"missing":{SIGNAL:[REASON,HOW],...}}``
    what a source says of itself; a later one of the same source adds to it.
``{"columns":N,"source":S,"keys":[...]}``
    from here on rows of number N hold these keys in this order. Numbers count up from 0 within a
    recording; a source whose keys change (a process came or went) gets a new number.
``[N,clock_ns,v1,v2,...]``
    one read: ``null`` where a value could not be read.

A process that is killed loses at most the line that it was writing: a line without its newline,
with other than the announced number of values, or with NUL bytes in it (a file system that lost a
block) is counted and skipped, and nothing before or after it is lost. Unknown objects are skipped:
later versions may add some.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from whyidle.model.telemetry import Absent, Reading, Series, Telemetry, Value

SCHEMA: Final = "whyidle/telemetry/1"
MOST_SETS: Final = 64
"""sets of keys whose numbers a writer remembers, however processes come and go"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def header_line(clock_ns: int, unix_ns: int) -> bytes:
    """The line that begins a recording."""
    return _encode({"schema": SCHEMA, "clock_ns": clock_ns, "unix_ns": unix_ns}) + b"\n"


def source_line(source: str, facts: Mapping[str, str], missing: Mapping[str, Absent]) -> bytes:
    """The line of what a source says of itself."""
    told = {signal: [absent.reason, absent.how] for signal, absent in missing.items()}
    return _encode({"source": source, "facts": dict(facts), "missing": told}) + b"\n"


class TelemetryWriter:
    """Writes rows, and names their columns whenever these change."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        self._next = 0

    def row_lines(self, source: str, clock_ns: int, reading: Reading) -> bytes:
        """The lines for one read. NaN and infinities, which JSON has not, become null."""
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
    """Reads lines back, in order.

    Attributes:
        facts: all that sources said of themselves so far.
        missing: signals that were not to be had.
        offset_ns: Unix time minus clock, of the recording that is being read.
        lost: lines that could not be read.
    """

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.missing: dict[str, Absent] = {}
        self.offset_ns: int | None = None
        self.lost = 0
        self._columns: dict[int, list[str]] = {}

    def read_rows(self, lines: Iterable[bytes]) -> Iterator[tuple[int, Reading]]:
        """Every read: its moment on the recording's clock, and its values by key."""
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
        """A read; nothing for a line of another kind; None for one that cannot be read."""
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
        return clock, {name: _parse_number(one) for name, one in zip(keys, values, strict=True)}


def _parse_absences(told: object) -> dict[str, Absent]:
    if not isinstance(told, dict):
        return {}
    return {
        str(signal): Absent(*map(str, one[:2]))
        for signal, one in told.items()
        if isinstance(one, list) and one
    }


def _parse_number(value: Any) -> Value:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def gather_series(rows: Iterable[tuple[int, Reading]]) -> dict[str, Series]:
    """Columns of what was read, by key; 16 bytes a value."""
    times: dict[str, array[int]] = {}
    values: dict[str, array[float]] = {}
    for clock, reading in rows:
        for name, value in reading.items():
            if value is not None:
                times.setdefault(name, array("q")).append(clock)
                values.setdefault(name, array("d")).append(value)
    return {name: _make_series(times[name], values[name]) for name in times}


def _make_series(times: Sequence[int], values: Sequence[float]) -> Series:
    return Series(np.array(times, dtype=np.int64), np.array(values, dtype=np.float64))


def read_telemetry(lines: Iterable[bytes]) -> Telemetry:
    """A whole recording of ours. One that was appended to takes the last recording's clock."""
    reader = TelemetryReader()
    series = gather_series(reader.read_rows(lines))
    return Telemetry(series, reader.facts, reader.missing, reader.offset_ns, reader.lost)
