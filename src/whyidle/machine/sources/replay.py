"""Replay of recorded telemetry: our own, or a log of nvidia-smi. Each read returns the recording's
next moment; after the last one readings are empty. ``load`` returns the whole recording as columns.
A row of 115 values takes 23 us to read."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from whyidle.errors import InputError, NotATraceError
from whyidle.machine.sources import _gpu_signals, host
from whyidle.machine.sources._smi_log import SmiLog, is_header
from whyidle.model.live.telemetry import (
    Absent,
    Available,
    Meter,
    Reader,
    Reading,
    Target,
    Telemetry,
)
from whyidle.model.live.telemetry_lines import TelemetryReader, gather_series

SIGNALS: tuple[Meter, ...] = (*_gpu_signals.METERS, *host.SIGNALS)
PERIOD_S = 0.5
LIVE = False

_HEAD_LINES = 200
"""the header follows nvidia-smi's table, whose length depends on the processes"""
_HOW = "pass a telemetry file of a run, or the CSV output of nvidia-smi --query-gpu=..."


class Recording:
    """A reader over a file. ``clock_ns`` is the moment of the last read."""

    def __init__(self, path: Path) -> None:
        self._stream = _open_stream(path)
        try:
            self._decoder = _choose_decoder(path)
        except InputError:
            self._stream.close()
            raise
        self._rest = self._until_cut()
        self.clock_ns = 0

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts that the rows so far contained."""
        return self._decoder.facts

    @property
    def missing(self) -> Mapping[str, Absent]:
        """Signals that the recording declares missing."""
        return self._decoder.missing if isinstance(self._decoder, TelemetryReader) else {}

    @property
    def lost_lines(self) -> int:
        """Unreadable lines so far."""
        return self._decoder.lost

    @property
    def offset_ns(self) -> int | None:
        """Unix time minus the recording's clock, if known."""
        decoder = self._decoder
        return decoder.offset_ns if isinstance(decoder, TelemetryReader) else decoder.unix_ns

    def read(self) -> Reading:
        """Return the next moment's values; empty after the last."""
        for clock_ns, reading in self._rest:
            self.clock_ns = clock_ns
            return reading
        return {}

    def read_rows(self) -> Iterator[tuple[int, Reading]]:
        """Return the remaining moments."""
        return self._rest

    def _until_cut(self) -> Iterator[tuple[int, Reading]]:
        try:
            yield from self._decoder.read_rows(self._stream)
        except (EOFError, OSError, ValueError):  # a gzip file that was cut, or closed under us
            return

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Return whether the target names a recording of a known kind."""
    if target.recording is None:
        return Absent("no recording was given", _HOW)
    try:
        _choose_decoder(target.recording)
    except InputError as error:
        return Absent(str(error.why or error.what), error.hint)
    return Available()


def open(target: Target) -> Recording:  # noqa: A001  # a source's verb
    """Replay ``target.recording``.

    Raises:
        InputError: there is none, or it cannot be read. NotATraceError: it is not telemetry.
    """
    if target.recording is None:
        raise InputError("No recording was given to replay.", hint=_HOW)
    return Recording(target.recording)


def load(path: Path) -> Telemetry:
    """Return a whole recording as columns.

    Raises:
        InputError: as ``open``.
    """
    recording = Recording(path)
    try:
        series = gather_series(recording.read_rows())
        return Telemetry(
            series, recording.facts, recording.missing, recording.offset_ns, recording.lost_lines
        )
    finally:
        recording.close()


def _open_stream(path: Path) -> BinaryIO:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(f"Cannot read {path}.", why=f"{error.strerror or error}.") from error
    if stream.read(2) == b"\x1f\x8b":
        stream.close()
        return cast("BinaryIO", gzip.open(path))
    stream.seek(0)
    return stream


def _choose_decoder(path: Path) -> TelemetryReader | SmiLog:
    with _open_stream(path) as stream:
        try:
            for _ in range(_HEAD_LINES):
                line = stream.readline(1 << 20)
                if line.startswith(b'{"schema":"whyidle/telemetry/'):
                    return TelemetryReader()
                if is_header(line.replace(b"\x00", b"").decode("utf-8", "replace")):
                    return SmiLog()
        except (EOFError, OSError) as error:
            raise NotATraceError(f"{path} is not telemetry.", why=f"{error}.", hint=_HOW) from error
    raise NotATraceError(f"{path} is not telemetry.", why="Its format is unknown.", hint=_HOW)


_: Reader = cast("Recording", None)  # the type checker holds Recording to the protocol
