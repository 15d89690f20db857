"""What an engine that reaches other machines does on one of them, in a process that is not ours.

An arm runs there as it would here: in the folder of the command, with the variables of whoever
typed it, in an isolation that is set up there. All that it writes goes into a folder of ours, which
is removed; what is needed of it is handed back.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from whyidle.engine.isolation import Leak, Level
from whyidle.engine.trial import arm
from whyidle.engine.trial.arm import Asked, Ran
from whyidle.engine.trial.executor import Terms
from whyidle.engine.trial.kept_in import KeptIn
from whyidle.errors import TrialError
from whyidle.version import __version__

GIVEN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""variables by which a cluster says which accelerators a process may use"""
MOST_BYTES = 1 << 28
"""of a file that the command names, which is compared with what is there"""


@dataclass(frozen=True, slots=True)
class Order:
    """An arm that is to run there; ``slowest`` as ``arm.run`` has it."""

    terms: Terms
    asked: Asked
    name: str
    slowest: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Came:
    """What came of it: its recording, packed, where it was watched in detail; and what was held
    back."""

    ran: Ran
    recording: bytes
    leaks: tuple[Leak, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A machine: why arms cannot run there (empty: they can), and what to do about that; the kind
    of isolation that they have there."""

    host: str
    why: str = ""
    hint: str = ""
    level: Level = "python"


def named_files(terms: Terms) -> dict[str, str]:
    """The files that the command names, and what is in them, as a digest."""
    found = {}
    for word in terms.command[1:]:
        with suppress(OSError):  # a program in a word (-c) is too long for a name
            path = terms.here / word
            if path.is_file() and path.stat().st_size <= MOST_BYTES:
                found[word] = _digest(path)
    return found


def look(terms: Terms, files: Mapping[str, str], version: str) -> Seen:
    """Whether this machine reaches what the command needs, and can keep its trials in."""
    host = socket.gethostname()
    why = _unreached(terms, files)
    if why:
        hint = "The folder of the command, its data and its environment must be at the same paths "
        return Seen(host, why, f"{hint}on every machine of the cluster, on a shared file system.")
    if version != __version__:
        return Seen(host, f"it has whyidle {__version__}, not {version}", "Install the same there.")
    with as_typed(terms):
        kept_in = KeptIn(network=terms.network)
        try:
            kept_in.check(terms.command, yes=terms.yes)
        except TrialError as error:
            return Seen(host, f"{error.what} {error.why}", error.hint)
    return Seen(host, level=kept_in.level)


def _unreached(terms: Terms, files: Mapping[str, str]) -> str:
    if not terms.here.is_dir():
        return f"there is no folder {terms.here}"
    program = terms.command[0]
    place = str(terms.here / program) if Path(program).name != program else program
    if shutil.which(place, path=terms.environment.get("PATH")) is None:
        return f"there is no program {program}"
    for word, digest in files.items():
        path = terms.here / word
        if not path.is_file():
            return f"there is no file {word}"
        if _digest(path) != digest:
            return f"{word} is another file there"
    return ""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(order: Order) -> Came:
    """Run an arm on this machine.

    Raises:
        OSError: the copies of patched files cannot be made.
        TrialError: the isolation that was found there is no longer available.
    """
    with as_typed(order.terms):
        top = Path(tempfile.mkdtemp(prefix="whyidle-fix-"))
        try:
            folder = top / order.name
            folder.mkdir()
            kept_in = KeptIn(network=order.terms.network, level=order.terms.level)
            with kept_in.arm(folder) as guard:
                ran = arm.run(order.terms.command, order.asked, folder, guard, order.slowest)
                ran = replace(ran, behind=guard.behind())
            packed = pack(ran.recording) if order.asked.profile else b""
            return Came(ran, packed, tuple(kept_in.leaks))
        finally:
            shutil.rmtree(top, ignore_errors=True)


def here(came: Came, folder: Path) -> Ran:
    """What came of it, with its recording unpacked into ``folder`` on this machine."""
    recording = folder / "recording"
    recording.mkdir(parents=True, exist_ok=True)
    if came.recording:
        with tarfile.open(fileobj=io.BytesIO(came.recording)) as packed:
            for member in packed:
                path, content = recording / member.name, packed.extractfile(member)
                if content is not None and path.resolve().is_relative_to(recording.resolve()):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content.read())
    return replace(came.ran, recording=recording)


def pack(folder: Path) -> bytes:
    """All files of a folder, in one piece."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as into:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                into.add(path, str(path.relative_to(folder)))
    return packed.getvalue()


@contextmanager
def as_typed(terms: Terms) -> Iterator[None]:
    """Have this process in the folder and with the variables of whoever typed the command, but with
    the accelerators that the cluster gives it."""
    before, folder = dict(os.environ), Path.cwd()
    own = {name: before[name] for name in GIVEN if name in before}
    _become({**terms.environment, **own})
    os.chdir(terms.here)
    try:
        yield
    finally:
        os.chdir(folder)
        _become(before)


def _become(variables: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(variables):
        del os.environ[name]
    os.environ.update(variables)
