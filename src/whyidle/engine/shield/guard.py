"""Around a trial's command: what it writes is thrown away, and what it sends does not leave."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from whyidle.engine.shield import network, stale, trackers
from whyidle.engine.shield.fenced import Fenced
from whyidle.engine.shield.kinds import Asked, Kind, Level, UnavailableError
from whyidle.engine.shield.namespaces import Namespaces

MARK = "\x01"
"""ends the names that the guest's part leaves of what was removed"""


@dataclass(frozen=True, slots=True)
class Written:
    """A file as the job would have left it; ``size_bytes`` is None where it would be gone."""

    path: str
    size_bytes: int | None


class Leak(NamedTuple):
    """Something that a job did which no copy of its files can undo: ``connection to host:port``,
    ``program cp``, ``write to PATH refused``; and the line of the user's (``FILE:LINE``, or empty)
    that did it. Whether it was ``held`` back: without ports in the kernel's Landlock, a program
    that sends is not."""

    what: str
    where: str
    held: bool = True


class Behind(NamedTuple):
    """What stood around a command: the kind, whether it had a ``network``, and what was held back
    or let through."""

    level: Level
    network: bool
    leaks: tuple[Leak, ...]


class Shield:
    """What stands around a command, of the best kind that can be had here."""

    def __init__(
        self, scratch: Path, network: bool, real: Sequence[Path], best: Level = "namespaces"
    ) -> None:
        for folder in stale.left():
            with suppress(OSError):  # somebody else is about to do the same
                _remove(folder)
        self.kept = [Path(folder).resolve() for folder in real]
        self.network = network
        self._scratch = Path(scratch).resolve()
        self._notes = self._scratch / "notes"
        self._notes.mkdir()
        asked = Asked(self._scratch, self._notes, tuple(self.kept), closed=not network)
        self.why = ""
        """why there is no better kind here"""
        self._kind = self._best(asked, best)
        self.level: Level = self._kind.level

    def _best(self, asked: Asked, best: Level) -> Kind:
        reasons = []
        if best == "namespaces":
            try:
                return Namespaces(asked)
            except UnavailableError as error:
                reasons.append(str(error))
        if best != "python":
            try:
                return Fenced(asked, "landlock")
            except UnavailableError as error:
                reasons.append(str(error))
            finally:
                self.why = "; ".join(reasons)
        return Fenced(asked, "python")

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, wrapped: for `subprocess.Popen`, started in the same working folder. Its
        process, group, streams, signals and exit status are what they would be without us. Every
        call has a place of its own for what is written: one command does not see another's."""
        return self._kind.command(words)

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What to add to the command's environment."""
        told = trackers.environment(self._scratch, before, self.network)
        if not self.network:
            closed = self.level == "namespaces"
            told |= network.environment(before) if closed else network.unproxied(before)
        return {**told, "PYTHONDONTWRITEBYTECODE": "1"}

    def written(self) -> list[Written]:
        """What the commands would have written and removed, each path as the job knew it."""
        found = {}
        for upper in self._kind.uppers:
            for path, told in _files(upper.path):
                place = str(Path(upper.folder, path.relative_to(upper.path)))
                gone = stat.S_ISCHR(told.st_mode)
                found[place] = Written(place, None if gone else told.st_size)
            for place in _marked(upper.gone) if upper.gone else ():
                found.setdefault(place, Written(place, None))
        return [found[place] for place in sorted(found)]

    @property
    def sends(self) -> bool:
        """Whether programs and C++ code reach the network, though the command has none."""
        return self._kind.sends

    @property
    def denied(self) -> list[str]:
        """Folders directly in which nothing can be written in a trial."""
        return self._kind.denied

    @property
    def places(self) -> list[Path]:
        """Folders of ours that hold what is written, thrown away at the end."""
        return [self._scratch, *self._kind.made]

    def leaks(self) -> list[Leak]:
        """What was held back or could not be diverted, each once."""
        found = set()
        for what, where in self._noted("notes"):
            held = not (self.sends and what.startswith("program "))
            found.add(Leak(what, where, held))
        sent = any(each.what.startswith(("connection", "look-up")) for each in found)
        if not sent and next(self._notes.glob("*.routes"), None):
            found.add(Leak("connection or look-up of a name, by code that is not Python", ""))
        return sorted(found | self._unanswered())

    def _unanswered(self) -> set[Leak]:
        """Connections to who listens on this machine, outside of the command's network. Where any
        of its processes was reached at that port, in the end, the port is one of its own."""
        reached = {port for port, _ in self._noted("reached")}
        return {
            Leak(what, where)
            for what, where in self._noted("refused")
            if what.rpartition(":")[2] not in reached
        }

    def _noted(self, kind: str) -> Iterator[tuple[str, str]]:
        for path in self._notes.glob(f"*.{kind}"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                what, _, where = line.partition("\t")
                yield what, where

    def behind(self) -> Behind:
        """What can be told of it once a command has ended."""
        return Behind(self.level, self.network, tuple(self.leaks()))

    def close(self) -> None:
        """Throw away what was written."""
        self._kind.close()
        for folder in self.places:
            _remove(folder)


@contextmanager
def shield(
    scratch: Path,
    network: bool = False,
    real: Sequence[Path] = (),
    best: Level = "namespaces",
) -> Iterator[Shield]:
    """Shield commands from here on: nothing they write outside of ``real`` stays, and without
    ``network`` nothing they send leaves this machine. ``scratch`` is a new, empty folder of ours,
    and gone afterwards.

    The working folder must be where the commands are started. ``best`` is the best kind that is
    tried.
    """
    guard = Shield(scratch, network, real, best)
    try:
        yield guard
    finally:
        guard.close()


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Files, links and whiteouts (an overlay's mark of what was removed, a character device)."""
    for base, _, names in os.walk(folder):
        for name in names:
            path = Path(base, name)
            told = path.lstat()
            if (
                stat.S_ISREG(told.st_mode)
                or stat.S_ISLNK(told.st_mode)
                or (stat.S_ISCHR(told.st_mode) and told.st_rdev == 0)
            ):
                yield path, told


def _marked(gone: Path) -> list[str]:
    """What the guest's part has marked as removed."""
    return ["/" + str(path.relative_to(gone))[: -len(MARK)] for path in gone.rglob("*" + MARK)]


def _remove(folder: Path) -> None:
    """Remove a tree, if it is there, whose folders may be closed to us: a job may have written them
    so, and an overlay's own is. What is above it keeps its rights."""

    def open_up(call: Callable[..., Any], path: str, _: object) -> None:
        if not os.path.lexists(folder):
            return  # somebody else was faster
        for each in (Path(path).parent, Path(path)):
            if each.is_relative_to(folder) and each.is_dir() and not each.is_symlink():
                each.chmod(0o700)
        if call in (os.scandir, os.open, os.lstat) or Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            call(path)

    shutil.rmtree(folder, onerror=open_up)
