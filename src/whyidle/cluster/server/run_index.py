"""The stored runs in memory, for lists and searches. A refresh reads those whose metadata changed:
a thousand take a quarter of a second."""

from __future__ import annotations

import pwd
import shlex
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from whyidle.model.diagnosis import Attribution, Document
from whyidle.store.entry import DIAGNOSIS, META, Entry, entry_of
from whyidle.store.run_store import Store

SHARE: Final = 0.1
"""of the time that refreshing may take, on a slow disk of a team"""


class RunRecord(Document, frozen=True, kw_only=True):
    """What is known of a run in a list. ``user`` owns its folder."""

    store: str
    id: str
    created: str
    state: str
    headline: str
    command: str
    user: str | None
    host: str | None
    framework: str | None
    device: str | None
    ranks: int
    cause: str | None
    step_s: float | None
    busy: float | None
    attribution: Attribution | None
    pinned: bool
    speedup: float | None
    became: str | None
    broken: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs are wanted; None: any. ``words`` must all occur."""

    words: Sequence[str] = ()
    state: str | None = None
    store: str | None = None
    since: str | None = None  # ISO 8601, as in the metadata


class _Device(msgspec.Struct):
    kind: str
    name: str | None
    count: int


class _Run(msgspec.Struct):
    framework: str | None
    ranks: int
    hosts: list[str]


class _Finding(msgspec.Struct):
    cause: str
    severity: str


class _Use(msgspec.Struct):
    busy: float | None


class _Brief(msgspec.Struct):
    """The parts of a diagnosis that a list shows."""

    device: _Device
    run: _Run
    findings: list[_Finding]
    utilization: _Use
    attribution: Attribution


class _Row(NamedTuple):
    """A run: when its metadata changed, ns, the text that is searched, and what a list shows."""

    stamp: int
    text: str
    record: RunRecord


class RunIndex:
    """The runs of several stores, by the store's name."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self._stores = stores
        self._lock = threading.Lock()
        self._due_s = 0.0
        self._rows: dict[tuple[str, str], _Row] = {}

    def refresh(self, *, force: bool = False) -> None:
        """Read what changed in the stores since the last time, if it is time."""
        with self._lock:
            if not force and time.monotonic() < self._due_s:
                return
            begin = time.monotonic()
            present = {
                (name, run): stamp
                for name, store in self._stores.items()
                for run, stamp in _stamp_runs(store).items()
            }
            self._rows = {
                key: row
                if (row := self._rows.get(key)) is not None and row.stamp == stamp
                else self._read_row(*key, stamp)
                for key, stamp in present.items()
            }
            spent = time.monotonic() - begin
            self._due_s = begin + max(1.0, spent / SHARE)

    def _read_row(self, store: str, run: str, stamp: int) -> _Row:
        record = describe_entry(store, entry_of(self._stores[store].folder / run))
        parts = (
            record.id, record.command, record.headline, record.device, record.cause, record.host,
            record.user, record.framework, record.store,
        )  # fmt: skip
        return _Row(stamp, "\n".join(part for part in parts if part).lower(), record)

    def find_runs(
        self, wanted: RunFilter, *, limit: int = 50, offset: int = 0
    ) -> tuple[list[RunRecord], int]:
        """The newest runs that match, and how many match."""
        self.refresh()
        found = [row.record for row in self._rows.values() if _matches(row, wanted)]
        found.sort(key=lambda record: record.id, reverse=True)
        return found[offset : offset + limit], len(found)

    def count_states(self) -> dict[str, int]:
        """How many runs have each state."""
        self.refresh()
        return Counter(row.record.state for row in self._rows.values())


def _matches(row: _Row, wanted: RunFilter) -> bool:
    record = row.record
    return (
        all(word.lower() in row.text for word in wanted.words)
        and wanted.state in (None, record.state)
        and wanted.store in (None, record.store)
        and (wanted.since is None or record.created >= wanted.since)
    )


def _stamp_runs(store: Store) -> dict[str, int]:
    """When the metadata of each run changed, ns; -1 without metadata."""
    try:
        folders = [path for path in store.folder.iterdir() if path.name[0] != "."]
    except OSError:
        return {}
    stamps = {path.name: _stamp(path) for path in folders}
    return {name: stamp for name, stamp in stamps.items() if stamp is not None}


def _stamp(folder: Path) -> int | None:
    try:
        return (folder / META).stat().st_mtime_ns
    except NotADirectoryError:
        return None
    except OSError:
        return -1


def describe_entry(store: str, entry: Entry) -> RunRecord:
    """What a list shows of a run."""
    meta, brief = entry.meta, _read_brief(entry.path / DIAGNOSIS)
    state = "failed" if entry.has_failed else meta.state if meta else "broken"
    known: dict[str, Any] = {
        "host": None, "framework": None, "device": None, "ranks": 1, "cause": None, "busy": None,
        "attribution": None,
    }  # fmt: skip
    if brief is not None:
        device = brief.device
        name = device.name or device.kind.upper()
        known = {
            "host": ", ".join(brief.run.hosts[:2]) or None,
            "framework": brief.run.framework,
            "device": f"{device.count} × {name}" if device.count > 1 else name,
            "ranks": brief.run.ranks,
            "cause": next((f.cause for f in brief.findings if f.severity != "info"), None),
            "busy": brief.utilization.busy,
            "attribution": brief.attribution,
        }
    return RunRecord(
        store=store,
        id=entry.id,
        created=meta.created if meta else "",
        state=state,
        headline=meta.headline if meta else "",
        command=_subject_of(entry),
        user=_owner_of(entry.path),
        step_s=meta.step_s if meta else None,
        pinned=bool(meta and meta.pinned),
        speedup=meta.speedup if meta else None,
        became=meta.became if meta else None,
        broken=entry.broken,
        **known,
    )


def _subject_of(entry: Entry) -> str:
    meta = entry.meta
    if meta is None:
        return ""
    if meta.job or meta.command:
        return meta.job or shlex.join(meta.command or [])
    return ", ".join(source.rsplit("/", 1)[-1] for source in meta.sources[:3])


def _owner_of(folder: Path) -> str | None:
    with suppress(OSError, KeyError):
        return pwd.getpwuid(folder.stat().st_uid).pw_name
    return None


def _read_brief(path: Path) -> _Brief | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Brief)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
