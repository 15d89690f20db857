"""Tracks with our results that an exporter adds to a copy of a recording.

An ``Overlay`` belongs to one source file and uses that file's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A slice ``[start_ns, start_ns + length_ns)`` on the file's clock; an instant if the length is
    0. A viewer shows ``args``."""

    start_ns: int
    length_ns: int
    name: str
    args: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Track:
    """A row of marks, disjoint or nested, sorted by start; ``marks`` may be a generator."""

    name: str
    marks: Iterable[Mark]


@dataclass(frozen=True, slots=True)
class Overlay:
    """The tracks of one source (a path or ``archive.zip!member``), and those of the ``recording``
    itself, which a copy of its text need not repeat."""

    source: str
    rank: int | None
    tracks: tuple[Track, ...]
    recording: tuple[Track, ...] = ()
