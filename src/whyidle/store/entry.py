"""One folder of the run store: what its files are called, and what of it a listing needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from whyidle.store.schema_versions import VERSION

DIAGNOSIS = "diagnosis.json"
RECORDING = "recording"
"""a watched run's folder of raw evidence, which grows while the command runs"""
META = "meta.json"


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing needs to know without reading the diagnosis."""

    version: int = VERSION
    id: str
    created: str
    state: str
    headline: str
    sources: list[str]
    document: str
    """``run.id`` inside the diagnosis"""
    pinned: bool = False
    command: list[str] | None = None
    job: str | None = None
    """``run.job``: which of the command's jobs this is, where it ran several"""
    failed: bool = False
    """whether the command failed before anything could be seen of it: ``last`` passes it over"""
    speedup: float | None = msgspec.field(default=None, name="healed")
    """how many times as fast the job became with the fixes kept; ``state`` is what it was.
    In files it has the name of whyidle 0.1"""
    became: str | None = None
    """the id of the run that holds what it became"""
    step_s: float | None = None
    """mean of its steady steps, s; None where none was found, or an older version stored it"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder of the store. ``broken`` says why it cannot be read; then ``meta`` is None."""

    id: str
    path: Path
    meta: Meta | None
    bytes: int
    broken: str | None = None

    @property
    def failed(self) -> bool:
        """Whether its command failed before anything could be seen of it."""
        return self.meta is not None and self.meta.failed


def entry_of(path: Path) -> Entry:
    """What a run's folder holds."""
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
