"""Writes the prepared samples in shards: resumable, checked, and within the free disk space."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from whyidle.errors import InputError, OutputError, UsageError
from whyidle.fix.isolation.disk_space import SHARE, disk_room
from whyidle.planning.preparation.survey import (
    PROBE,
    Forecast,
    MakerProcess,
    Survey,
    ask_once,
    fingerprint_sources,
    measure_gain,
)
from whyidle.store.atomic_write import write_atomic

MANIFEST, PROGRESS = "manifest.json", "progress.jsonl"
PACKAGE = "whyidle_prepared"
READER = {
    "knobs/_sample_codec.py": "sample_codec.py",
    "preparation/prepared_dataset.py": "__init__.py",
}
"""files of the probe that read the data without whyidle, and their names in ``PACKAGE``"""


class Preparation:
    """One prepared dataset, new or resumed. Lines of ``progress.jsonl`` are the setup and the
    shards that are complete; ``manifest.json`` exists only when all are."""

    def __init__(self, python: str, spec: str, survey: Survey, *, folder: Path, shard: int) -> None:
        self._python, self._survey, self.folder = python, survey, folder
        self._order = {"spec": spec}
        self._count = max(round(shard / max(*survey.sizes, 1)), 1)
        self._path = folder / PROGRESS
        self._setup = {
            "spec": spec,
            "form": "map",
            "code": survey.code,
            "samples": survey.samples,
            "prefix": survey.prefix,
            "sources": survey.sources,
            "fingerprint": fingerprint_sources(survey.sources, folder),
            "per_shard": self._count,
        }
        self.shards: dict[str, dict[str, Any]] = {}

    def check_room(self) -> None:
        """Check that the disk can hold all that is still to be written.

        Raises:
            OutputError: it cannot.
        """
        done = sum(shard["bytes"] for shard in self.shards.values())
        needed = self._survey.size.high - done
        self._check_bytes(needed, "Nothing was written" if not done else "What was written is kept")

    def _check_bytes(self, needed: float, state: str) -> None:
        room = disk_room(next(p for p in (self.folder, *self.folder.parents) if p.exists()))
        free = room.free_bytes - SHARE * room.whole_bytes
        if needed > free:
            raise OutputError(
                f"The disk of {self.folder} has no room for the prepared data.",
                why=f"{needed / 1e6:,.1f} MB are needed, {max(free, 0) / 1e6:,.1f} MB may be used "
                f"({SHARE:.0%} stay free). {state}.",
                hint="Free space, or name a folder on another disk: --out DIR",
            )

    @contextmanager
    def open_folder(self) -> Iterator[None]:
        """Make the folder, or take over what an interrupted run has written; for this process
        alone until the block ends.

        Raises:
            InputError: it was written from other samples, or its sources have changed.
            UsageError: another process is writing it.
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            hint = "Wait until it has finished, or choose another folder with --out."
            raise UsageError(f"{self.folder} is being written.", hint=hint) from error
        except OSError:  # a file system without locks for folders, such as NFS
            pass
        try:
            self._take_over()
            yield
        finally:
            os.close(lock)

    def _take_over(self) -> None:
        text = self._path.read_text("utf-8") if self._path.exists() else ""
        lines = text.splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        if whole:
            self._check_setup(whole[0])
            self.shards = {one["name"]: one for one in whole[1:] if self._is_intact(one)}
        elif any(self.folder.iterdir()):
            hint = "Choose an empty folder with --out."
            raise InputError(f"{self.folder} contains other files.", hint=hint)
        kept = [self._setup, *self.shards.values()]
        write_atomic(self._path, b"".join(json.dumps(line).encode() + b"\n" for line in kept))

    def _check_setup(self, before: dict[str, Any]) -> None:
        if before == self._setup:
            return
        differs = next(key for key in self._setup if before.get(key) != self._setup[key])
        meaning = {
            "fingerprint": "the source files have changed",
            "code": "the code of the dataset has changed",
        }.get(differs, f"its {differs} differs")
        raise InputError(
            f"{self.folder} was started with other samples: {meaning}.",
            why="Shards of both would be mixed.",
            hint="Delete the folder, or choose another one with --out.",
        )

    def _is_intact(self, shard: dict[str, Any]) -> bool:
        path = self.folder / shard["name"]
        return path.is_file() and _hash_file(path) == shard["sha256"]

    def write_shards(self, workers: int, progress: Callable[[int, int], None]) -> None:
        """Write what is missing.

        Raises:
            OutputError: the disk becomes full; complete shards stay.
            InputError: the dataset fails.
        """
        waiting = [item for item in self._list_ranges() if item[0] not in self.shards]
        waiting.reverse()
        order = {**self._order, "mode": "write", "prefix": self._survey.prefix}
        makers = [MakerProcess(self._python, order) for _ in range(min(workers, len(waiting)))]
        most = float(max(self._survey.sizes))
        busy: dict[MakerProcess, int] = {}
        try:
            with self._path.open("ab") as ledger, DefaultSelector() as selector:
                for maker in makers:
                    selector.register(maker.replies, EVENT_READ, maker)
                while waiting or busy:
                    free = [maker for maker in makers if maker not in busy]
                    for maker in free[: len(waiting)]:
                        name, begin, end = waiting.pop()
                        busy[maker] = end - begin
                        self._check_bytes(most * sum(busy.values()), "Complete shards are kept")
                        path = str(self.folder / name)
                        maker.ask({"begin": begin, "end": end, "path": path})
                    for key, _ in selector.select():
                        done = key.data.read_reply()
                        del busy[key.data]
                        self.shards[done["name"]] = done
                        ledger.write(json.dumps(done).encode() + b"\n")
                        ledger.flush()
                        made = sum(shard["samples"] for shard in self.shards.values())
                        progress(made, self._survey.samples)
        finally:
            for maker in makers:
                maker.end()
            for draft in self.folder.glob("*~"):
                draft.unlink()

    def _list_ranges(self) -> Iterator[tuple[str, int, int]]:
        survey = self._survey
        for number, begin in enumerate(range(0, survey.samples, self._count)):
            name = f"{number:05}.shard"
            yield name, begin, min(begin + self._count, survey.samples)

    def finish_data(self) -> Forecast:
        """Check the sources and samples, and complete the folder; returns how many times as fast a
        sample is read as it is made.

        Raises:
            InputError: the sources changed meanwhile, or a sample differs.
        """
        survey = self._survey
        if fingerprint_sources(survey.sources, self.folder) != self._setup["fingerprint"]:
            raise InputError(
                "The source files changed while they were prepared.",
                why="Some shards come from the old files, some from the new ones.",
                hint=f"Delete {self.folder}, and prepare again.",
            )
        shards = [self.shards[name] for name, _, _ in self._list_ranges()]
        manifest = {**self._setup, "imports": survey.imports, "shards": shards}
        draft = self.folder / f"{MANIFEST}~"
        draft.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        order = {**self._order, "mode": "check", "indices": survey.indices, "prefix": survey.prefix}
        try:
            found = ask_once(self._python, {**order, "folder": str(self.folder)})
            if found["digests"] != survey.digests or not found["same_length"]:
                raise InputError(
                    "Written samples differ from those made before.",
                    why="The dataset depends on the order or the process in which it is read.",
                    hint="It cannot be prepared as it is.",
                )
            self._write_reader()
            draft.replace(self.folder / MANIFEST)
        finally:
            draft.unlink(missing_ok=True)
        return measure_gain(found["rounds"])

    def _write_reader(self) -> None:
        package = self.folder / PACKAGE
        package.mkdir(exist_ok=True)
        for source, name in READER.items():
            text = (PROBE / source).read_text("utf-8")
            text = text.replace(".knobs._sample_codec", "sample_codec")
            (package / name).write_text(text, encoding="utf-8")


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
