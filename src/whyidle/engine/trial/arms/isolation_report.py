"""How the trials of ``fix`` are kept in, and what is told of that."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from whyidle.engine.isolation import LEVELS, Isolation, Leak, Level, isolate, mark_folder
from whyidle.engine.isolation.disk_space import LEAST_BYTES, disk_room
from whyidle.engine.trial.arms.failure_hints import SENDING
from whyidle.engine.trial.arms.launchers import find_launcher
from whyidle.errors import TrialError

SENT = (
    "What that costs is not in these numbers: whyidle fix --network --yes ... gives it back, and "
    "uploads are real then."
)
MOST = 5
"""of what was held back so many are told"""
ENDING = ("SIGTERM", "SIGHUP")


class TrialIsolation:
    """The guards of all arms, and what they held back. ``network`` lets the job reach it; ``level``
    is the kind that they must have at least, as it was found before."""

    def __init__(self, *, network: bool, level: Level = "python") -> None:
        self.network = network
        self.level: Level = level
        self.leaks: dict[Leak, None] = {}

    def check_isolation(self, command: Sequence[str], *, yes: bool) -> None:
        """Look what can be had here, before anything is run.

        Raises:
            TrialError: what the job does could not all be undone, and nobody said --yes.
        """
        if self.network and not yes:
            raise TrialError(
                "With --network trials send what the job sends.",
                why="Uploads are real: a job that pushes checkpoints somewhere would overwrite "
                "them.",
                hint="whyidle fix --network --yes ... goes on all the same.",
            )
        starts = find_launcher(command)
        if starts is not None and not yes:
            raise TrialError(
                f"What {starts} starts is not kept in.",
                why="Another machine or a service runs it: what the job writes and sends there "
                "is real.",
                hint="Try the command that it starts, or whyidle fix --yes ... to go on all the "
                "same.",
            )
        _must_have_room()
        with tempfile.TemporaryDirectory(prefix="whyidle-") as folder:
            scratch = mark_folder(folder) / "scratch"
            scratch.mkdir()
            with isolate(scratch, network=self.network) as guard:
                self.level, why, sends = guard.level, guard.why, guard.can_send
        if self.level == "python" and not yes:
            raise TrialError(
                "Here a trial is kept in by Python only.",
                why="Files that other programs or C++ code of the job write, and what they send, "
                f"would not be held back ({why}).",
                hint="whyidle fix --yes ... goes on all the same.",
            )
        if sends and not yes:
            raise TrialError(
                "Here programs of a trial reach the network.",
                why="What programs or C++ code of the job upload would be real: there are no "
                f"namespaces ({why}), and this kernel's Landlock knows no ports (Linux 6.7 has "
                "one that does).",
                hint="whyidle fix --yes ... goes on all the same.",
            )

    @contextmanager
    def isolate_arm(self, folder: Path) -> Iterator[Isolation]:
        """A guard around one arm, whose ``folder`` stays writable.

        Raises:
            TrialError: it would hold back less than what was found before the first arm.
        """
        scratch = folder / "scratch"
        scratch.mkdir()
        _mark_above(folder)
        with _end_arm_on_signal(), isolate(scratch, network=self.network, real=[folder]) as guard:
            if LEVELS.index(guard.level) > LEVELS.index(self.level):
                raise TrialError(
                    "A trial can no longer be kept in as it was asked for.",
                    why=f"Isolation was better before the first one ({self.level}) than it is "
                    f"now ({guard.level}): {guard.why}.",
                    hint="Try again when the machine is less busy.",
                )
            yield guard
            self.leaks |= dict.fromkeys(guard.find_leaks())

    def isolation_notes(self) -> list[str]:
        """What was held back, or let through, a sentence each."""
        return told_of(self.leaks, network=self.network)


def _must_have_room() -> None:
    """Raises TrialError where what trials record would not find room."""
    try:
        place = tempfile.gettempdir()
        left = disk_room(place).free_bytes
    except OSError as error:
        raise TrialError(
            "There is no place for temporary files.",
            why=f"{error}.",
            hint="TMPDIR=FOLDER whyidle fix COMMAND, a folder that has room.",
        ) from error
    if left < LEAST_BYTES:
        raise TrialError(
            f"The folder for temporary files, {place}, has {left / 1e6:.1f} MB left.",
            why=f"Trials record there, and need {LEAST_BYTES / 1e6:.0f} MB at least.",
            hint="TMPDIR=FOLDER whyidle fix COMMAND, a folder that has more room.",
        )


def told_of(leaks: Iterable[Leak], *, network: bool) -> list[str]:
    """What was held back, or with ``network`` let through, a sentence each."""
    found = list(leaks)
    if network:
        return _describe_leaks("Let through in trials (--network)", found)
    held = [leak for leak in found if leak.held]
    other = [leak for leak in found if not leak.held]
    sent = any(leak.what.startswith(SENDING) for leak in held)
    said = [
        f"{text} {SENT}" if sent else text for text in _describe_leaks("Held back in trials", held)
    ]
    return said + _describe_leaks("Not held back in trials", other)


def _describe_leaks(head: str, leaks: Sequence[Leak]) -> list[str]:
    here = f"{Path.cwd()}/"
    places = [leak.where.removeprefix(here) for leak in leaks]
    told = [
        f"{leak.what}{f' ({place})' if place else ''}"
        for leak, place in zip(leaks[:MOST], places, strict=False)
    ]
    more = f"; and {len(leaks) - MOST} more" if len(leaks) > MOST else ""
    return [f"{head}: {'; '.join(told)}{more}."] if told else []


def _mark_above(folder: Path) -> None:
    """The folder of all arms, so that it can be removed by a later start where we are killed."""
    place = Path(tempfile.gettempdir()).resolve()
    for each in (folder, *folder.parents):
        if each.parent.resolve() == place and each.name.startswith("whyidle-fix-"):
            mark_folder(each)


@contextmanager
def _end_arm_on_signal() -> Iterator[None]:
    """What would end us at once ends the arm first: its processes are stopped, its files removed.
    What is ignored (nohup) or handled already stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
    numbers = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
    for each in numbers:
        signal.signal(each, _raise_on_signal)
    try:
        yield
    finally:
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)


def _raise_on_signal(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
