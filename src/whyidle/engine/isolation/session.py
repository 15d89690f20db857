"""Around a trial's command: what it writes is thrown away, and what it sends does not leave."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from whyidle.engine.isolation import network, stale_folders, tracker_settings
from whyidle.engine.isolation.backend import Backend, IsolationRequest, Level, UnavailableError
from whyidle.engine.isolation.landlock import LandlockBackend
from whyidle.engine.isolation.namespaces import NamespaceBackend


class Leak(NamedTuple):
    """Something that a job did which no copy of its files can undo: ``connection to host:port``,
    ``program cp``, ``write to PATH refused``; and the line of the user's (``FILE:LINE``, or empty)
    that did it. Whether it was ``held`` back: without ports in the kernel's Landlock, a program
    that sends is not."""

    what: str
    where: str
    held: bool = True


class IsolationReport(NamedTuple):
    """What stood around a command: the kind, whether it had a ``network``, and what was held back
    or let through."""

    level: Level
    network: bool
    leaks: tuple[Leak, ...]


class Isolation:
    """What stands around a command, of the best kind that can be had here."""

    def __init__(
        self, scratch: Path, network: bool, real: Sequence[Path], best: Level = "namespaces"
    ) -> None:
        for folder in stale_folders.find_stale():
            with suppress(OSError):  # somebody else is about to do the same
                _remove_tree(folder)
        self.network = network
        self._scratch = Path(scratch).resolve()
        self._notes = self._scratch / "notes"
        self._notes.mkdir()
        folders = tuple(Path(folder).resolve() for folder in real)
        asked = IsolationRequest(self._scratch, self._notes, folders, closed=not network)
        self.why = ""
        """why there is no better kind here"""
        self._backend = self._choose_backend(asked, best)
        self.level: Level = self._backend.level

    def _choose_backend(self, asked: IsolationRequest, best: Level) -> Backend:
        reasons = []
        if best == "namespaces":
            try:
                return NamespaceBackend(asked)
            except UnavailableError as error:
                reasons.append(str(error))
        if best != "python":
            try:
                return LandlockBackend(asked, "landlock")
            except UnavailableError as error:
                reasons.append(str(error))
            finally:
                self.why = "; ".join(reasons)
        return LandlockBackend(asked, "python")

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, wrapped: for `subprocess.Popen`, started in the same working folder. Its
        process, group, streams, signals and exit status are what they would be without us. Every
        call has a place of its own for what is written: one command does not see another's."""
        return self._backend.command(words)

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What to add to the command's environment."""
        told = tracker_settings.tracker_environment(self._scratch, before, self.network)
        if not self.network:
            closed = self.level == "namespaces"
            told |= network.network_environment(before) if closed else network.without_proxy(before)
        return {**told, "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def can_send(self) -> bool:
        """Whether programs and C++ code reach the network, though the command has none."""
        return self._backend.sends

    @property
    def places(self) -> list[Path]:
        """Folders of ours that hold what is written, thrown away at the end."""
        return [self._scratch, *self._backend.made]

    def find_leaks(self) -> list[Leak]:
        """What was held back or could not be diverted, each once."""
        found = set()
        for what, where in self._read_notes("notes"):
            held = not (self.can_send and what.startswith("program "))
            found.add(Leak(what, where, held))
        sent = any(each.what.startswith(("connection", "look-up")) for each in found)
        if not sent and next(self._notes.glob("*.routes"), None):
            found.add(Leak("connection or look-up of a name, by code that is not Python", ""))
        return sorted(found | self._unanswered_connections())

    def _unanswered_connections(self) -> set[Leak]:
        """Connections to who listens on this machine, outside of the command's network. Where any
        of its processes was reached at that port, in the end, the port is one of its own."""
        reached = {port for port, _ in self._read_notes("reached")}
        return {
            Leak(what, where)
            for what, where in self._read_notes("refused")
            if what.rpartition(":")[2] not in reached
        }

    def _read_notes(self, kind: str) -> Iterator[tuple[str, str]]:
        for path in self._notes.glob(f"*.{kind}"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                what, _, where = line.partition("\t")
                yield what, where

    def make_report(self) -> IsolationReport:
        """What can be told of it once a command has ended."""
        return IsolationReport(self.level, self.network, tuple(self.find_leaks()))

    def close(self) -> None:
        """Throw away what was written."""
        self._backend.close()
        for folder in self.places:
            _remove_tree(folder)


@contextmanager
def isolate(
    scratch: Path, network: bool = False, real: Sequence[Path] = (), best: Level = "namespaces"
) -> Iterator[Isolation]:
    """Isolation commands from here on: nothing they write outside of ``real`` stays, and without
    ``network`` nothing they send leaves this machine. ``scratch`` is a new, empty folder of ours,
    and gone afterwards.

    The working folder must be where the commands are started. ``best`` is the best kind that is
    tried.
    """
    guard = Isolation(scratch, network, real, best)
    try:
        yield guard
    finally:
        guard.close()


def _remove_tree(folder: Path) -> None:
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
