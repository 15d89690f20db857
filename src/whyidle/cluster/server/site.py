"""What the pages read: the stores, their index, this machine and a fleet report."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from whyidle.cluster.server.live_jobs import LiveJobs, status_of
from whyidle.cluster.server.machine_monitor import MachineMonitor
from whyidle.cluster.server.run_index import RunFilter, RunIndex, RunRecord
from whyidle.errors import InputError, WhyidleError
from whyidle.model.documents.fleet import FleetReport
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.store.document import describe_error
from whyidle.store.entry import Entry, entry_of
from whyidle.store.run_store import Store

if TYPE_CHECKING:  # the command line reads the settings where the extra is missing, too
    from starlette.requests import Request

RUN_ID: Final = re.compile(r"\d{8}-\d{6}-\d{6}")
"""ids of runs are the only part of a path that reaches the disk"""


class NotFoundError(WhyidleError):
    """There is no such run, machine or user."""


class NothingYetError(NotFoundError):
    """A page of this server has nothing to show yet, and says what to do; no link is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """``token`` opens the pages; without one, anyone may view. ``names`` are host names by which
    browsers may address the server; ``fleet`` is a document of ``whyidle fleet report``."""

    stores: Sequence[Path]
    token: str | None = None
    names: Sequence[str] = ()
    fleet: Path | None = None


class FleetFile:
    """A file that ``whyidle fleet report --json`` writes, from time to time."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._report: FleetReport | None = None

    def read(self) -> FleetReport | None:
        """The report; None if the server was given none.

        Raises:
            InputError: the file cannot be read, or is no report of this version.
        """
        if self._path is None:
            return None
        try:
            with self._lock:
                status = self._path.stat()
                stamp = (status.st_mtime_ns, status.st_size)
                if stamp != self._stamp:
                    self._report = msgspec.json.decode(self._path.read_bytes(), type=FleetReport)
                    self._stamp = stamp
                return self._report
        except OSError as error:
            raise InputError(f"Cannot read {self._path}.", why=f"{error.strerror}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f"{self._path} is not a fleet report that this version can read.",
                why=f"{describe_error(error)}.",
                hint="Write it again: whyidle fleet report --json FILE",
            ) from error


class Site:
    """Everything that pages read. ``close`` ends it."""

    def __init__(self, settings: SiteSettings) -> None:
        self.settings = settings
        self.stores = name_stores(settings.stores)
        self.jobs = LiveJobs()
        self.fleet = FleetFile(settings.fleet)
        self.monitor = MachineMonitor()
        self.index = RunIndex(self.stores)

    def find_run(self, run_id: str) -> tuple[Store, Entry]:
        """A run by its whole id.

        Raises:
            NotFoundError: no store has it.
        """
        if RUN_ID.fullmatch(run_id):
            for store in self.stores.values():
                if (store.folder / run_id).is_dir():
                    return store, entry_of(store.folder / run_id)
        raise NotFoundError(f"There is no run {run_id[:40]!r}.", hint="See the list of runs.")

    def has_run(self, run_id: str) -> bool:
        """Whether a store has a run."""
        return bool(RUN_ID.fullmatch(run_id)) and any(
            (store.folder / run_id).is_dir() for store in self.stores.values()
        )

    def running_runs(self) -> list[RunRecord]:
        """The runs that are running, the newest first."""
        runs, _ = self.index.find_runs(RunFilter(state="recording"))
        return [run for run in runs if status_of(self.find_run(run.id)[1]) == "running"]

    def close(self) -> None:
        """End the look at the machine."""
        self.monitor.close()


def name_stores(paths: Sequence[Path]) -> dict[str, Store]:
    """The stores by name: the last part of the path that tells them apart."""
    named: dict[str, Store] = {}
    for path in paths:
        whole = path.absolute()
        base = whole.parent.name if whole.name == ".whyidle" else whole.name
        name, number = base or "store", 2
        while name in named:
            name, number = f"{base}-{number}", number + 1
        named[name] = Store(path)
    return named


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a page is asked for: the parts of its path, and its parameters."""

    site: Site
    path: Mapping[str, str] = field(default_factory=dict)
    query: Sequence[tuple[str, str]] = ()

    @classmethod
    def of_request(cls, site: Site, request: Request) -> Question:
        """What a request asks of a page."""
        query = request.query_params.multi_items()
        return cls(site=site, path=request.path_params, query=query)

    def value(self, name: str) -> str | None:
        """The last value of a parameter; None if it is missing or empty."""
        return next((value for key, value in reversed(self.query) if key == name and value), None)

    def find_run(self, run_id: str) -> tuple[Store, Entry]:
        """A run. Raises NotFoundError."""
        return self.site.find_run(run_id)

    def machine(self) -> WatchedMachine | None:
        """The machine of the server."""
        return self.site.monitor.machine

    def number(self, name: str, default: int, most: int) -> int:
        """A parameter as a number from 1 to ``most``."""
        text = self.value(name) or ""
        return min(max(1, int(text)), most) if text.isdecimal() and len(text) < 10 else default


def _add_nothing(question: Question, document: Any) -> Mapping[str, Any]:
    del question, document
    return {}


def _never(document: Any) -> bool:
    del document
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page. ``read`` makes its document, which is its JSON; ``view`` adds what the template
    needs besides. A ``live`` page asks again while it is open, until ``is_over``."""

    path: str
    title: str
    template: str
    document: Any  # its type
    read: Callable[[Question], Any]
    view: Callable[[Question, Any], Mapping[str, Any]] = _add_nothing
    is_over: Callable[[Any], bool] = _never
    section: str = ""  # the entry of the navigation that it belongs to
    live: bool = False

    @property
    def api_path(self) -> str:
        """Where its JSON is."""
        return "/api/now" if self.path == "/" else f"/api{self.path}"
