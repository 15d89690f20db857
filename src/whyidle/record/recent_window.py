"""Copies the recent part of a growing recording into a recording of its own.

Only the ends of the files are read, so the cost does not grow with the length of the recording.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.device_timestamps import MARK
from whyidle.model.loader_tables import BATCH, ROW, TAKE
from whyidle.readers import probe
from whyidle.readers.probe.samples import SAMPLE

WINDOW_NS: Final = 30_000_000_000
MOST_RECORDS: Final = 4096  # a few hundred steps; a minute and more of stack samples
_LAYOUTS: Final = {"samples": SAMPLE, "batches": BATCH, "takes": TAKE, "rows": ROW, "device": MARK}
_MAGIC: Final = len(probe.MAGIC)


def copy_recent(recording: Path, into: Path) -> None:
    """Copy the last half minute, at most ``MOST_RECORDS`` records per file."""
    for path in recording.iterdir():
        stem, _, suffix = path.name.partition(".")
        if not stem.isdigit() or path.name.endswith("~") or suffix.startswith("burst-"):
            continue
        if suffix == "spans":
            spans = last_records(path, probe.SPAN, _MAGIC)
            spans = spans[spans["end"] >= spans["end"].max(initial=0) - WINDOW_NS]
            (into / path.name).write_bytes(probe.MAGIC + spans.tobytes())
        elif suffix in _LAYOUTS:
            (into / path.name).write_bytes(last_records(path, _LAYOUTS[suffix]).tobytes())
        else:
            (into / path.name).symlink_to(path.absolute())


def last_records(path: Path, layout: np.dtype[Any], head: int = 0) -> NDArray[Any]:
    """Read the last complete records of a file."""
    with path.open("rb") as file:
        whole = max(0, file.seek(0, 2) - head) // layout.itemsize
        first = max(0, whole - MOST_RECORDS)
        file.seek(head + first * layout.itemsize)
        data = file.read((whole - first) * layout.itemsize)
    return np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], dtype=layout)
