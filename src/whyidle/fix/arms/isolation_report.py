"""Isolates the arms of ``whyidle fix``, and reports blocked actions."""

from __future__ import annotations

import re
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from whyidle.errors import TrialError
from whyidle.fix.arms.failure_hints import SENDING
from whyidle.fix.isolation import LEVELS, Isolation, Leak, Level, isolate, mark_folder
from whyidle.fix.isolation.disk_space import LEAST_BYTES, disk_room

LAUNCHERS = (
    *("docker", "docker-compose", "flux run", "flux submit", "flux batch", "kubectl", "nerdctl"),
    *("podman", "qsub", "ray job submit", "sbatch", "srun", "ssh"),
)
_NAMES = "|".join(name.replace(" ", r"\s+") for name in sorted(LAUNCHERS, reverse=True))
_WHOLE = re.compile(rf"(?:{_NAMES})(?!\S)")
_IN_TEXT = re.compile(
    r"(?:^|[;&|()]|\b(?:do|else|env|exec|nohup|sudo|then|time)\s)[ \t]*(?:\w+=\S*\s+)*"
    rf"((?:[\w./-]*/)?(?:{_NAMES}))(?!\S)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?<!\S)#.*")
_PROGRAM = re.compile(r"python[\d.]*|\S*\.py")
_SHELL = re.compile(r"#!.*\b(?:ba|da|a|z|k)?sh\b")
MOST_CHARACTERS = 1 << 20


def find_launcher(words: Sequence[str]) -> str | None:
    """The first launcher in a command, as it is written there."""
    for at, word in enumerate(words):
        name = Path(word).name
        if _PROGRAM.fullmatch(name):
            return None
        line = bool(re.search(r"\s", word))  # of a shell, as behind ``bash -c``
        if not line and _WHOLE.match(" ".join([name, *words[at + 1 :]])):
            return word
        text = word if line else _script(word)
        if text:
            found = _IN_TEXT.search(_COMMENT.sub("", text.replace("\\\n", " ")))
            return found[1].split()[0] if found else None
    return None


def _script(path: str) -> str:
    with suppress(OSError, ValueError):
        if Path(path).is_file():
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(MOST_CHARACTERS)
            return text if _SHELL.match(text) or path.endswith(".sh") else ""
    return ""


SENT = (
    "Measured times do not include it: whyidle fix --network --yes ... allows it, including real "
    "uploads."
)
MOST = 5  # blocked actions listed in a note, at most
ENDING = ("SIGTERM", "SIGHUP")


class TrialIsolation:
    """The isolation of all arms (``level``: the least) and the actions that it blocked."""

    def __init__(self, *, network: bool, level: Level = "python") -> None:
        self.network = network
        self.level: Level = level
        self.leaks: dict[Leak, None] = {}

    def check_isolation(self, command: Sequence[str], *, yes: bool) -> None:
        """Determine the best isolation of this machine, before anything is run.

        Raises:
            TrialError: the job cannot be fully isolated, and --yes was not given.
        """
        if self.network and not yes:
            raise TrialError(
                "With --network, trials send everything that the job sends.",
                why="Uploads are real: a job that pushes checkpoints would overwrite them.",
                hint="To continue anyway: whyidle fix --network --yes ...",
            )
        starts = find_launcher(command)
        if starts is not None and not yes:
            raise TrialError(
                f"Processes started by {starts} cannot be isolated.",
                why="A service or another machine runs them: their writes and uploads are real.",
                hint="Pass the command that it starts; to continue anyway: whyidle fix --yes ...",
            )
        _must_have_room()
        with tempfile.TemporaryDirectory(prefix="whyidle-") as folder:
            scratch = mark_folder(folder) / "scratch"
            scratch.mkdir()
            with isolate(scratch, network=self.network) as guard:
                self.level, why, sends = guard.level, guard.why, guard.can_send
        if self.level == "python" and not yes:
            raise TrialError(
                "On this machine, trials can only be isolated in Python.",
                why="Writes and uploads by other programs or C++ code of the job would be real "
                f"({why}).",
                hint="To continue anyway: whyidle fix --yes ...",
            )
        if sends and not yes:
            raise TrialError(
                "On this machine, programs in a trial can reach the network.",
                why="Uploads by programs or C++ code of the job would be real: namespaces are not "
                f"available ({why}), and this kernel's Landlock cannot block ports (Linux 6.7 or "
                "later can).",
                hint="To continue anyway: whyidle fix --yes ...",
            )

    @contextmanager
    def isolate_arm(self, folder: Path) -> Iterator[Isolation]:
        """Isolate one arm, whose ``folder`` stays writable.

        Raises:
            TrialError: the isolation would be weaker than before the first arm.
        """
        scratch = folder / "scratch"
        scratch.mkdir()
        _mark_above(folder)
        with _end_arm_on_signal(), isolate(scratch, network=self.network, real=[folder]) as guard:
            if LEVELS.index(guard.level) > LEVELS.index(self.level):
                raise TrialError(
                    "Trials can no longer be isolated as before.",
                    why=f"The isolation was {self.level} and is now only {guard.level}: "
                    f"{guard.why}.",
                    hint="Try again when the machine is less busy.",
                )
            yield guard
            self.leaks |= dict.fromkeys(guard.find_leaks())

    def isolation_notes(self) -> list[str]:
        """Sentences on blocked or allowed actions."""
        return told_of(self.leaks, network=self.network)


def _must_have_room() -> None:
    try:
        place = tempfile.gettempdir()
        left = disk_room(place).free_bytes
    except OSError as error:
        raise TrialError(
            "There is no folder for temporary files.",
            why=f"{error}.",
            hint="Name one: TMPDIR=FOLDER whyidle fix COMMAND",
        ) from error
    if left < LEAST_BYTES:
        raise TrialError(
            f"The folder for temporary files, {place}, has {left / 1e6:.1f} MB left.",
            why=f"Trials record there and need at least {LEAST_BYTES / 1e6:.0f} MB.",
            hint="Name a folder with more space: TMPDIR=FOLDER whyidle fix COMMAND",
        )


def told_of(leaks: Iterable[Leak], *, network: bool) -> list[str]:
    """Sentences on the actions that were blocked, or allowed by ``network``."""
    actions = list(leaks)
    if network:
        return _describe_leaks("Allowed in trials (--network)", actions)
    blocked = [leak for leak in actions if leak.held]
    unblocked = [leak for leak in actions if not leak.held]
    sent = any(leak.what.startswith(SENDING) for leak in blocked)
    sentences = [
        f"{text} {SENT}" if sent else text for text in _describe_leaks("Blocked in trials", blocked)
    ]
    return sentences + _describe_leaks("Not blocked in trials", unblocked)


def _describe_leaks(head: str, leaks: Sequence[Leak]) -> list[str]:
    working_folder = f"{Path.cwd()}/"
    places = [leak.where.removeprefix(working_folder) for leak in leaks]
    texts = [
        f"{leak.what}{f' ({place})' if place else ''}"
        for leak, place in zip(leaks[:MOST], places, strict=False)
    ]
    more = f"; and {len(leaks) - MOST} more" if len(leaks) > MOST else ""
    return [f"{head}: {'; '.join(texts)}{more}."] if texts else []


def _mark_above(folder: Path) -> None:
    """Mark the folder of all arms, so that a later start removes it if this process is killed."""
    place = Path(tempfile.gettempdir()).resolve()
    for each in (folder, *folder.parents):
        if each.parent.resolve() == place and each.name.startswith("whyidle-fix-"):
            mark_folder(each)


@contextmanager
def _end_arm_on_signal() -> Iterator[None]:
    """Stop the arm and remove its files when a signal ends this process. Signals that are ignored
    (nohup) or handled already keep their handlers."""
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
