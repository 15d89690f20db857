"""An index of the stored runs, in SQLite, for lists and searches.

It holds nothing that the stores do not hold. A refresh reads the runs whose metadata changed; an
index that is missing, of another version or damaged is made again.
"""

from __future__ import annotations

import pwd
import shlex
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from whyidle.errors import OutputError
from whyidle.model.diagnosis import Attribution, Document
from whyidle.store.entry import DIAGNOSIS, META, Entry, entry_of
from whyidle.store.run_store import Store

VERSION: Final = 30
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
    until: str | None = None


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


class RunIndex:
    """The runs of several stores, by the store's name."""

    def __init__(self, path: Path, stores: Mapping[str, Store], *, rebuild: bool = False) -> None:
        self._path, self._stores = path, stores
        self._lock = threading.RLock()
        self._due_s = 0.0
        if rebuild:
            self._remove_files()
        self._open()

    def refresh(self, *, force: bool = False) -> None:
        """Read what changed in the stores since the last time, if it is time."""
        with self._lock:
            if not force and time.monotonic() < self._due_s:
                return
            begin = time.monotonic()
            try:
                self._read_changes()
            except sqlite3.OperationalError:  # another server writes it: what it has is enough
                with suppress(sqlite3.Error):
                    self._base.execute("ROLLBACK")
            except sqlite3.DatabaseError:
                self._remove_files()
                self._open()
                self._read_changes()
            spent = time.monotonic() - begin
            self._due_s = begin + max(1.0, spent / SHARE)

    def find_runs(
        self, wanted: RunFilter, *, limit: int = 50, offset: int = 0
    ) -> tuple[list[RunRecord], int]:
        """The newest runs that match, and how many match."""
        self.refresh()
        clauses, values = ["1"], list[str]()
        for word in wanted.words:
            clauses.append("text LIKE ? ESCAPE '\\'")
            values.append(f"%{_escape_like(word.lower())}%")
        for column, comparison, value in (
            ("state", "=", wanted.state),
            ("store", "=", wanted.store),
            ("created", ">=", wanted.since),
            ("created", "<=", wanted.until),
        ):
            if value is not None:
                clauses.append(f"{column} {comparison} ?")
                values.append(value)
        where = " AND ".join(clauses)
        with self._lock:
            count = self._base.execute(f"SELECT count(*) FROM runs WHERE {where}", values)
            total: int = count.fetchone()[0]
            rows = self._base.execute(
                f"SELECT record FROM runs WHERE {where} ORDER BY id DESC LIMIT ? OFFSET ?",
                [*values, limit, offset],
            ).fetchall()
        return [msgspec.json.decode(row[0], type=RunRecord) for row in rows], total

    def count_runs(self, column: str) -> dict[str, int]:
        """How many runs have each ``state``, or are in each ``store``."""
        self.refresh()
        with self._lock:
            query = f"SELECT {column}, count(*) FROM runs GROUP BY {column}"
            return dict(self._base.execute(query))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._base = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            try:
                self._prepare_tables()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                self._remove_files()
                self._base = sqlite3.connect(
                    self._path, check_same_thread=False, isolation_level=None
                )
                self._prepare_tables()
        except (OSError, sqlite3.OperationalError) as error:
            raise OutputError(
                f"Cannot write {self._path}.",
                why=f"{error}.",
                hint="Choose another folder with --state DIR.",
            ) from error
        self._due_s = 0.0

    def _prepare_tables(self) -> None:
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=OFF")  # it can be made again
        if self._base.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            self._base.execute("DROP TABLE IF EXISTS runs")
            self._base.execute(f"PRAGMA user_version={VERSION}")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS runs (store TEXT, id TEXT, stamp INTEGER, state TEXT, "
            "created TEXT, text TEXT, record BLOB, "
            "PRIMARY KEY (store, id))"
        )

    def _remove_files(self) -> None:
        with suppress(AttributeError, sqlite3.Error):
            self._base.close()
        for end in ("", "-wal", "-shm"):
            Path(f"{self._path}{end}").unlink(missing_ok=True)

    def _read_changes(self) -> None:
        known: dict[tuple[str, str], int] = {
            (store, run): stamp
            for store, run, stamp in self._base.execute("SELECT store, id, stamp FROM runs")
        }
        names = {name for name, _ in known} - self._stores.keys()
        self._base.execute("BEGIN")
        for name in names:
            self._base.execute("DELETE FROM runs WHERE store = ?", [name])
        for name, store in self._stores.items():
            present = _stamp_runs(store)
            for run, stamp in present.items():
                if known.get((name, run)) != stamp:
                    self._write_row(name, entry_of(store.folder / run), stamp)
            for other, run in known:
                if other == name and run not in present:
                    self._base.execute("DELETE FROM runs WHERE store=? AND id=?", [name, run])
        self._base.execute("COMMIT")

    def _write_row(self, store: str, entry: Entry, stamp: int) -> None:
        record = describe_entry(store, entry)
        parts = (
            record.id, record.command, record.headline, record.device, record.cause, record.host,
            record.user, record.framework, record.store,
        )  # fmt: skip
        text = "\n".join(part for part in parts if part).lower()
        self._base.execute(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                *(store, record.id, stamp, record.state, record.created, text),
                msgspec.json.encode(record),
            ],
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


def _escape_like(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
