"""Promises of every importer and exporter; see ``contracts`` for causes and fixes."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np

from whyidle.errors import WhyidleError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.timeline import Timeline

FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "text": b"epoch 1 loss 0.3\n",
    "html": b"<!doctype html><html></html>",
    "sqlite": b"SQLite format 3\x00" + bytes(64),
    "png": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "other json": b'{"nodes": [1, 2, 3]}',
}
"""first bytes of files that no importer may accept"""


def check_timeline(timeline: Timeline) -> None:
    """Check that columns are sorted, aligned and in range."""
    names, details = len(timeline.names), len(timeline.details)
    for events in (timeline.host, timeline.device):
        lengths = {len(getattr(events, column)) for column in events.__slots__}
        assert len(lengths) == 1, "columns of different length"
        assert (np.diff(events.start) >= 0).all(), "events are not sorted by start"
        assert (events.end >= events.start).all(), "an event ends before it begins"
        assert ((events.name >= 0) & (events.name < names)).all(), "a name out of range"
        assert ((events.detail >= -1) & (events.detail < details)).all(), "a detail out of range"
    host = timeline.host
    assert ((host.thread >= 0) & (host.thread < len(timeline.threads))).all()
    assert len(timeline.memory.time) == len(timeline.memory.allocated)


def check_importer(importer: ModuleType, good: Path, scratch: Path) -> None:
    """Check that an importer accepts its own files only, and handles its own truncated files."""
    data = good.read_bytes()
    assert importer.__doc__, f"{importer.__name__} has no docstring"
    assert importer.SUFFIXES, f"{importer.__name__} declares no suffixes"
    head = gzip.decompress(data) if good.suffix == ".gz" else data
    assert importer.sniff(head[:4096]), f"{importer.__name__} does not know its own file"
    for kind, head in FOREIGN.items():
        assert not importer.sniff(head), f"{importer.__name__} takes {kind} for its own"
    check_timeline(importer.load(good))
    for share in (0.2, 0.6, 0.95):
        cut = scratch / f"cut{share}{''.join(good.suffixes)}"
        cut.write_bytes(data[: int(len(data) * share)])
        timeline, refused = _read(importer, cut)
        if timeline is not None:
            check_timeline(timeline)
            assert timeline.source.lost, f"{importer.__name__} hides that the file was cut"
        else:
            assert refused, f"{importer.__name__}: an error without a way out"


def _read(importer: ModuleType, path: Path) -> tuple[Timeline | None, str]:
    try:
        return importer.load(path), ""
    except WhyidleError as error:
        return None, error.hint


def check_exporter(exporter: ModuleType, diagnosis: Diagnosis) -> None:
    """Check that an exporter declares itself and renders one diagnosis to one text."""
    assert exporter.__doc__, f"{exporter.__name__} has no docstring"
    render = getattr(exporter, "render", None)
    if render is None:
        assert callable(exporter.write), f"{exporter.__name__} neither renders nor writes"
        return
    before = msgspec.json.encode(diagnosis)
    text = render(diagnosis)
    assert text.endswith("\n"), f"{exporter.__name__} does not end its last line"
    assert render(diagnosis) == text, f"{exporter.__name__} is not deterministic"
    assert msgspec.json.encode(diagnosis) == before, f"{exporter.__name__} changed the diagnosis"
    assert "nan" not in text.lower().split(), f"{exporter.__name__} prints nan"
