"""The run store: ``DIR/runs/<id>/`` with ``diagnosis.json`` and ``meta.json``.

Ids are times (UTC, microseconds), so that they sort by age. A run is written into a hidden folder
that is renamed when it is complete, so that listings see complete runs only. A new store is its
owner's alone; a run is as open as the folder ``runs``.
"""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from whyidle.errors import StoreError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.redaction import redact_command
from whyidle.store.atomic_write import write_atomic
from whyidle.store.document import read_diagnosis
from whyidle.store.entry import DIAGNOSIS, META, RECORDING, Entry, Meta, entry_of

RUN_ID = "%Y%m%d-%H%M%S-%f"
_LAST = re.compile(r"last(?:~(\d+))?")


def describe_run(run_id: str, moment: datetime, diagnosis: Diagnosis) -> Meta:
    """The metadata of a run that has a diagnosis, without the secrets of its command."""
    diagnosis = diagnosis.without_secrets()
    fixed = diagnosis.detail.fixed
    return Meta(
        id=run_id,
        created=moment.isoformat(timespec="seconds"),
        state=diagnosis.verdict.state,
        headline=diagnosis.verdict.headline,
        sources=diagnosis.run.sources,
        document=diagnosis.run.id,
        command=diagnosis.run.command,
        job=diagnosis.run.job,
        failed=diagnosis.command_failed,
        speedup=fixed.speedup if fixed else None,
        became=fixed.run if fixed else None,
        step_s=diagnosis.steps.mean_s,
    )


class Store:
    """The runs below a folder, which is created with the first run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "runs"

    def add_run(
        self, diagnosis: Diagnosis, *, now: datetime | None = None, named: bool = False
    ) -> Entry:
        """Store a diagnosis; ``named``: write the run's id into the document.

        Raises:
            StoreError: the store cannot be written.
        """
        moment = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
        try:
            draft, run_id, moment = self._draft_folder(moment)
            if named:
                diagnosis = diagnosis.with_id(run_id)
            return self._write_run(draft, describe_run(run_id, moment, diagnosis), diagnosis)
        except OSError as error:
            raise self._refusal("write", error) from error

    def begin_run(self, command: list[str], *, now: datetime | None = None) -> Entry:
        """Create the folder of a watched run with ``recording/``, which survives any crash.

        Raises:
            StoreError: the store cannot be written.
        """
        moment = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
        try:
            draft, run_id, moment = self._draft_folder(moment)
            meta = Meta(
                id=run_id,
                created=moment.isoformat(timespec="seconds"),
                state="recording",
                headline="not diagnosed yet",
                sources=[],
                document=run_id,
                command=redact_command(command),
            )
            with self._finish_draft(draft, run_id) as final:
                (draft / RECORDING).mkdir()
                (draft / META).write_bytes(msgspec.json.encode(meta))
            return Entry(run_id, final, meta, 0)
        except OSError as error:
            raise self._refusal("write", error) from error

    def complete_run(self, entry: Entry, diagnosis: Diagnosis) -> Entry:
        """Store the diagnosis of a watched run.

        Raises:
            StoreError: the store cannot be written.
        """
        diagnosis = diagnosis.without_secrets()
        content = msgspec.json.encode(diagnosis)
        verdict = diagnosis.verdict
        meta = msgspec.structs.replace(
            self._readable_meta(entry),
            state=verdict.state,
            headline=verdict.headline,
            job=diagnosis.run.job,
            failed=diagnosis.command_failed,
            step_s=diagnosis.steps.mean_s,
        )
        try:
            write_atomic(entry.path / DIAGNOSIS, content)
            write_atomic(entry.path / META, msgspec.json.encode(meta))
            self._set_modes(entry.path)
        except OSError as error:
            raise self._refusal("write", error) from error
        return Entry(entry.id, entry.path, meta, len(content))

    def _readable_meta(self, entry: Entry) -> Meta:
        if entry.meta is None:
            raise StoreError(
                f"The run {entry.id} cannot be read.",
                why=f"{entry.broken}.",
                hint=f"whyidle runs delete {entry.id}",
            )
        return entry.meta

    def _draft_folder(self, moment: datetime) -> tuple[Path, str, datetime]:
        self.prepare_folder()
        while True:
            run_id = moment.strftime(RUN_ID)
            draft = self.folder / f".{run_id}"
            try:
                draft.mkdir()
            except FileExistsError:
                moment += timedelta(microseconds=1)
                continue
            if not (self.folder / run_id).exists():
                return draft, run_id, moment
            draft.rmdir()
            moment += timedelta(microseconds=1)

    def prepare_folder(self) -> None:
        """Create the folders where they are missing, for their owner alone. Raises OSError."""
        for folder in (self.root, self.folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("# made by whyidle\n*\n", encoding="utf-8")

    def _set_modes(self, run: Path) -> None:
        """Open a run as far as the folder of all runs, whatever the umask is."""
        bits = stat.S_IMODE(self.folder.stat().st_mode) & 0o2055
        for path in (run, *(path for path in run.iterdir() if not path.is_symlink())):
            path.chmod(0o700 | bits if path.is_dir() else 0o600 | bits & 0o044)

    @contextmanager
    def _finish_draft(self, draft: Path, run_id: str) -> Iterator[Path]:
        """Rename a draft when it is whole; leave nothing of one that failed, such as on a disk that
        is full."""
        try:
            final = self.folder / run_id
            yield final
            self._set_modes(draft)
            draft.replace(final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _write_run(self, draft: Path, meta: Meta, diagnosis: Diagnosis) -> Entry:
        with self._finish_draft(draft, meta.id) as final:
            content = msgspec.json.encode(diagnosis.without_secrets())
            (draft / DIAGNOSIS).write_bytes(content)
            (draft / META).write_bytes(msgspec.json.encode(meta))
        return Entry(id=meta.id, path=final, meta=meta, bytes=len(content))

    def list_runs(self) -> list[Entry]:
        """List all runs, oldest first, unreadable ones included.

        Raises:
            StoreError: the folder cannot be listed.
        """
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.name[0] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refusal("read", error) from error
        return [entry_of(path) for path in paths if path.is_dir()]

    def find_run(self, name: str) -> Entry:
        """Find a run by its id or the beginning of it, the document's id, ``last`` or ``last~N``,
        which skip runs that failed before anything was measured.

        Raises:
            StoreError: no run or several match.
        """
        entries = self.list_runs()
        if match := _LAST.fullmatch(name):
            back = int(match[1] or 0)
            usable = [entry for entry in entries if not entry.has_failed] or entries
            if back < len(usable):
                return usable[-1 - back]
            raise StoreError(
                f"There is no run {name!r}.",
                why=f"The store {self.root} holds {len(entries) or 'no'} runs.",
                hint="whyidle runs" if entries else "whyidle explain TRACE",
            )
        exact = [entry for entry in entries if entry.id == name]
        by_document = [item for item in entries if item.meta and item.meta.document == name][-1:]
        by_start = [entry for entry in entries if entry.id.startswith(name)] if name else []
        matches = exact or by_document or by_start
        if len(matches) == 1:
            return matches[0]
        text = (
            f"{len(matches)} runs begin with {name!r}." if matches else f"There is no run {name!r}."
        )
        raise StoreError(text, why=f"The store is {self.root}.", hint="whyidle runs")

    def read_diagnosis(self, entry: Entry) -> Diagnosis:
        """Read the diagnosis of a run.

        Raises:
            StoreError: it cannot be read.
        """
        return read_diagnosis(entry.path / DIAGNOSIS)

    def delete_run(self, entry: Entry) -> None:
        """Delete a run. It disappears at once, even if deleting its files fails.

        Raises:
            StoreError: it is pinned, or cannot be removed.
        """
        if entry.meta is not None and entry.meta.pinned:
            raise StoreError(
                f"The run {entry.id} is pinned.", hint=f"whyidle runs unpin {entry.id}"
            )
        grave = self.folder / f".deleted-{entry.id}"
        try:
            entry.path.replace(grave)
            shutil.rmtree(grave)
        except OSError as error:
            raise self._refusal("write", error) from error

    def pin_run(self, entry: Entry, *, pinned: bool = True) -> Entry:
        """Protect a run from deletion, or stop protecting it.

        Raises:
            StoreError: it cannot be read or written.
        """
        meta = msgspec.structs.replace(self._readable_meta(entry), pinned=pinned)
        try:
            write_atomic(entry.path / META, msgspec.json.encode(meta))
        except OSError as error:
            raise self._refusal("write", error) from error
        return Entry(id=entry.id, path=entry.path, meta=meta, bytes=entry.bytes)

    def _refusal(self, verb: str, error: OSError) -> StoreError:
        return StoreError(
            f"Cannot {verb} the store {self.root}.",
            why=f"{error.strerror or error}.",
            hint="Choose another folder with --store DIR, or use --no-store.",
        )
