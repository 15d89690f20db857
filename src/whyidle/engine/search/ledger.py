"""The ledger of a search: an append-only file that makes it resume exactly after any crash.

``ledger.jsonl`` holds one line for the setup, for the start of each trial, for each value of its
metric and for its end. Lines are appended in one call each, starts and ends reach the disk before
the search goes on, and a line that a crash cut off is removed on resume. The samplers and pruners
of the engines are replayed from it; their own states are never needed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from whyidle.errors import InputError, OutputError, UsageError
from whyidle.model.search import (
    AGAIN,
    CostForecast,
    Ending,
    Report,
    SearchSetup,
    SearchTrial,
    TrialVerdict,
    Values,
    metric_of,
)

LEDGER: Final = "ledger.jsonl"


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="line"):
    """Base of the lines."""


class Opened(_Line, frozen=True, kw_only=True, tag="setup"):
    """The first line: what is searched."""

    setup: SearchSetup
    whyidle: str
    trials: int  # that were asked for


class Started(_Line, frozen=True, kw_only=True, tag="start"):
    """A trial was started."""

    number: int
    values: Values
    pid: int | None = None
    forecast: CostForecast | None = None
    retry_of: int | None = None
    beside: int = 1


class Reported(_Line, frozen=True, kw_only=True, tag="report"):
    """A trial reported a value of the metric."""

    number: int
    report: Report


class Ended(_Line, frozen=True, kw_only=True, tag="end"):
    """A trial has ended, and so have all of its processes."""

    number: int
    ending: Ending
    seconds: float | None = None
    gpu_hours: float | None = None
    verdict: TrialVerdict | None = None
    why: str = ""


Line = Opened | Started | Reported | Ended
_DECODER = msgspec.json.Decoder(Line)


class Ledger:
    """The open ledger of a search; only one process at a time may have it open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[Line] = []
        self._trials: dict[int, SearchTrial] = {}
        path = folder / LEDGER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"The search in {folder} is running.",
                why="Another whyidle has its ledger open.",
                hint="Wait for its end, or name another folder.",
            ) from error
        except OSError as error:
            why = f"{error.strerror or error}."
            hint = "Name another folder with --out."
            raise OutputError(f"Cannot write to {folder}.", why=why, hint=hint) from error
        self._load(path)

    def _load(self, path: Path) -> None:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._file, len(whole))
        try:
            for text in whole.splitlines():
                self._apply(_DECODER.decode(text))
        except (msgspec.DecodeError, KeyError) as error:
            hint = "Name another folder with --out."
            raise InputError(f"{path} is no ledger.", why=f"{error}.", hint=hint) from error

    @property
    def setup(self) -> SearchSetup | None:
        """The setup; None in a new ledger."""
        first = self.lines[0] if self.lines else None
        return first.setup if isinstance(first, Opened) else None

    @property
    def asked_trials(self) -> int:
        """How many trials were asked for when the search began."""
        first = self.lines[0] if self.lines else None
        return first.trials if isinstance(first, Opened) else 0

    @property
    def trials(self) -> list[SearchTrial]:
        """All trials, by number."""
        return list(self._trials.values())

    def append(self, line: Line) -> None:
        """Append a line.

        Raises:
            OutputError: the disk is full.
        """
        content = msgspec.json.encode(line) + b"\n"
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, content) < len(content):
                raise OSError(28, "No space left on device")
            if not isinstance(line, Reported):
                os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise OutputError(
                f"Cannot write the ledger in {self.folder}.",
                why=f"{error.strerror or error}.",
                hint=f"Free space, then whyidle tune --resume {self.folder}",
            ) from error
        self._apply(line)

    def _apply(self, line: Line) -> None:
        self.lines.append(line)
        if isinstance(line, Opened):
            return
        trials, number = self._trials, line.number
        if isinstance(line, Started):
            trials[number] = SearchTrial(
                number=number,
                values=line.values,
                ending="running",
                forecast=line.forecast,
                retry_of=line.retry_of,
                beside=line.beside,
            )
        elif isinstance(line, Reported):
            trials[number].reports.append(line.report)
        elif (setup := self.setup) is not None:
            trials[number] = msgspec.structs.replace(
                trials[number],
                ending=line.ending,
                metric=metric_of(trials[number].reports, setup),
                seconds=line.seconds,
                gpu_hours=line.gpu_hours,
                verdict=line.verdict,
                why=line.why,
            )

    def close_running(self) -> list[int]:
        """Write an end for each trial that has none: its processes have been ended."""
        left = [trial.number for trial in self.trials if trial.ending == "running"]
        for number in left:
            self.append(Ended(number=number, ending="lost", why="whyidle was killed"))
        return left

    def close(self) -> None:
        """Close the file, which frees the ledger for another process."""
        os.close(self._file)


def opened_setup(ledger: Ledger) -> SearchSetup:
    """The setup of a ledger.

    Raises:
        InputError: the ledger has no line yet.
    """
    if ledger.setup is None:
        raise InputError(
            f"The search in {ledger.folder} ended before its first trial.",
            hint=f"Give the whole command again, with --out {ledger.folder}",
        )
    return ledger.setup


def trials_to_retry(trials: Iterable[SearchTrial]) -> list[SearchTrial]:
    """Trials that neither ended by themselves nor ran again."""
    trials = list(trials)
    retried = {trial.retry_of for trial in trials}
    return [t for t in trials if t.ending in AGAIN and t.number not in retried]


def check_setup(ledger: Ledger, setup: SearchSetup) -> None:
    """Check that a ledger is of this search.

    Raises:
        UsageError: it is of another one; the message names the first difference.
    """
    if (before := ledger.setup) is None:
        return
    for name in SearchSetup.__struct_fields__:
        there, here = getattr(before, name), getattr(setup, name)
        if there != here:
            shown = isinstance(here, str | int) and len(f"{there}{here}") < 200
            raise UsageError(
                f"{ledger.folder} holds another search: not the same {name}.",
                why=f"There {there!r}, here {here!r}." if shown else "",
                hint=f"whyidle tune --resume {ledger.folder} goes on with it; --out names another "
                "folder.",
            )
