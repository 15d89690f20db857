"""One folder of the run store, and its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

DIAGNOSIS = "diagnosis.json"
RECORDING = "recording"
"""folder of a watched run's raw evidence"""
META = "meta.json"


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a run, for listings."""

    version: int = 1
    id: str
    created: str
    state: str
    headline: str
    sources: list[str]
    document: str  # ``run.id`` of the diagnosis
    pinned: bool = False
    command: list[str] | None = None
    job: str | None = None  # ``run.job`` of the diagnosis
    failed: bool = False  # whether the command failed before anything was measured
    speedup: float | None = msgspec.field(default=None, name="healed")  # key of whyidle 0.1
    became: str | None = None  # id of the run with the kept fixes
    step_s: float | None = None  # mean of its steady steps


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder of the store. ``broken`` is why it cannot be read; then ``meta`` is None."""

    id: str
    path: Path
    meta: Meta | None
    bytes: int
    broken: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether its command failed before anything was measured."""
        return self.meta is not None and self.meta.failed


def entry_of(path: Path) -> Entry:
    """Read the metadata of a run's folder."""
    size = 0
    try:
        meta = msgspec.json.decode((path / META).read_bytes(), type=Meta)
        if meta.state != "recording":
            size = (path / DIAGNOSIS).stat().st_size
    except OSError as error:
        return Entry(path.name, path, None, size, f"{error.strerror}: {error.filename}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Entry(path.name, path, None, size, f"{META}: {error}")
    return Entry(path.name, path, meta, size)
