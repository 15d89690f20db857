"""What we say about a recording, as tracks that can be laid over the recording itself.

An ``Overlay`` belongs to one source file and counts time on that file's own clock, so that an
exporter can add it to a copy of the file without knowing how the file was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A slice ``[start_ns, start_ns + length_ns)`` on the file's clock; an instant where the
    length is 0. ``args`` are what a viewer shows about it."""

    start_ns: int
    length_ns: int
    name: str
    args: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Track:
    """A row of marks. They are disjoint or nest, and are sorted by start; ``marks`` may be a
    generator that can be gone through once."""

    name: str
    marks: Iterable[Mark]


@dataclass(frozen=True, slots=True)
class Overlay:
    """The tracks for one source (a path, or ``archive.zip!member``). ``cut`` tells that the
    file ends before its document does."""

    source: str
    rank: int | None
    cut: bool
    tracks: tuple[Track, ...]
