"""A reading of the recording that begins before the engine is imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from whyidle.readers._files.range_reading import RangeReading, start_reading


@contextmanager
def read_ahead(paths: Sequence[Path]) -> Iterator[RangeReading | None]:
    """Begin to read a single large trace in helper processes; None for anything else."""
    reading = start_reading(paths)
    try:
        yield reading
    finally:
        if reading is not None:
            reading.close()
