"""Isolates a command: discards its writes, and blocks its network access."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from whyidle.fix.isolation import network, stale_folders
from whyidle.fix.isolation.backend import Backend, IsolationRequest, Level, UnavailableError
from whyidle.fix.isolation.landlock import LandlockBackend
from whyidle.fix.isolation.namespaces import NamespaceBackend

SILENT = {"WANDB_MODE": {"disabled", "offline", "dryrun"}, "NEPTUNE_MODE": {"debug", "disabled"}}
"""values of the user that are not overridden, since they are at least as strict"""


def tracker_environment(scratch: Path, before: Mapping[str, str], network: bool) -> dict[str, str]:
    """Variables to set for the command; ``before``: the current environment."""
    asked = {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": (scratch / "mlruns").as_uri(),
        "COMET_START_ONLINE": "0",
        "COMET_AUTO_LOG_DISABLE": "true",
        "NEPTUNE_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
    }
    if not network:  # use the cache at once, instead of after all attempts to connect
        asked |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return {
        name: value
        for name, value in asked.items()
        if before.get(name, "").lower() not in SILENT.get(name, ())
    }


class Leak(NamedTuple):
    """An action that cannot be redirected."""

    what: str  # such as ``connection to host:port``, ``program cp``, ``write to PATH refused``
    where: str  # the user's line (``FILE:LINE``), or empty
    held: bool = True  # whether it was blocked


class IsolationReport(NamedTuple):
    """How a command was isolated, its network access, and its blocked or allowed actions."""

    level: Level
    network: bool
    leaks: tuple[Leak, ...]


class Isolation:
    """The best isolation that is available on this machine."""

    def __init__(
        self, scratch: Path, network: bool, real: Sequence[Path], best: Level = "namespaces"
    ) -> None:
        for folder in stale_folders.find_stale():
            with suppress(OSError):  # another process may be removing it
                _remove_tree(folder)
        self.network = network
        self._scratch = Path(scratch).resolve()
        self._notes = self._scratch / "notes"
        self._notes.mkdir()
        folders = tuple(Path(folder).resolve() for folder in real)
        asked = IsolationRequest(self._scratch, self._notes, folders, closed=not network)
        self.why = ""  # why no better isolation is available
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
        """Wrap a command for `subprocess.Popen` in the current working folder.

        Its process id, group, streams, signals and exit status are unchanged. Every call has its
        own storage: a command does not see the writes of another.
        """
        return self._backend.command(words)

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Variables to add to the command's environment."""
        variables = tracker_environment(self._scratch, before, self.network)
        if not self.network:
            closed = self.level == "namespaces"
            variables |= (
                network.network_environment(before) if closed else network.without_proxy(before)
            )
        return {**variables, "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def can_send(self) -> bool:
        """Whether programs and C++ code can reach the network although it should be closed."""
        return self._backend.sends

    @property
    def places(self) -> list[Path]:
        """Temporary folders of the writes."""
        return [self._scratch, *self._backend.made]

    def find_leaks(self) -> list[Leak]:
        """Actions that were blocked or could not be redirected, each once."""
        leaks = set()
        for what, where in self._read_notes("notes"):
            held = not (self.can_send and what.startswith("program "))
            leaks.add(Leak(what, where, held))
        sent = any(each.what.startswith(("connection", "look-up")) for each in leaks)
        if not sent and next(self._notes.glob("*.routes"), None):
            leaks.add(Leak("connection or look-up of a name, by code other than Python", ""))
        return sorted(leaks | self._unanswered_connections())

    def _unanswered_connections(self) -> set[Leak]:
        """Refused connections to listeners on this machine, except for ports at which a process of
        the command itself was reached later."""
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
        """Report on a command that has ended."""
        return IsolationReport(self.level, self.network, tuple(self.find_leaks()))

    def close(self) -> None:
        """Discard all writes."""
        self._backend.close()
        for folder in self.places:
            _remove_tree(folder)


@contextmanager
def isolate(
    scratch: Path, network: bool = False, real: Sequence[Path] = (), best: Level = "namespaces"
) -> Iterator[Isolation]:
    """Isolate commands that start in the current working folder, with the ``best`` kind that is
    available. ``scratch`` is a new, empty folder, removed afterwards; writes in ``real`` folders
    are permanent."""
    guard = Isolation(scratch, network, real, best)
    try:
        yield guard
    finally:
        guard.close()


def _remove_tree(folder: Path) -> None:
    """Remove a tree that may contain inaccessible folders, such as those of an overlay. Modes of
    folders above it are not changed."""

    def open_up(call: Callable[..., Any], path: str, _: object) -> None:
        if not os.path.lexists(folder):
            return  # another process removed it
        for each in (Path(path).parent, Path(path)):
            if each.is_relative_to(folder) and each.is_dir() and not each.is_symlink():
                each.chmod(0o700)
        if call in (os.scandir, os.open, os.lstat) or Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            call(path)

    shutil.rmtree(folder, onerror=open_up)
