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
from whyidle.engine.trial.arms import arm
from whyidle.engine.trial.arms.arm import ArmRequest, ArmResult
from whyidle.engine.trial.arms.isolation_report import TrialIsolation
from whyidle.engine.trial.executor import TrialTerms
from whyidle.errors import TrialError
from whyidle.version import __version__

GIVEN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""variables by which a cluster says which accelerators a process may use"""
MOST_BYTES = 1 << 28
"""of a file that the command names, which is compared with what is there"""


@dataclass(frozen=True, slots=True)
class RemoteOrder:
    """An arm that is to run there; ``slowest`` as ``arm.run`` has it."""

    terms: TrialTerms
    asked: ArmRequest
    name: str
    slowest: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """What came of it: its recording, packed, where it was watched in detail; and what was held
    back."""

    ran: ArmResult
    recording: bytes
    leaks: tuple[Leak, ...]


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """A machine: why arms cannot run there (empty: they can), and what to do about that; the kind
    of isolation that they have there."""

    host: str
    why: str = ""
    hint: str = ""
    level: Level = "python"


def named_files(terms: TrialTerms) -> dict[str, str]:
    """The files that the command names, and what is in them, as a digest."""
    found = {}
    for word in terms.command[1:]:
        with suppress(OSError):  # a program in a word (-c) is too long for a name
            path = terms.here / word
            if path.is_file() and path.stat().st_size <= MOST_BYTES:
                found[word] = _file_digest(path)
    return found


def check_machine(terms: TrialTerms, files: Mapping[str, str], version: str) -> MachineCheck:
    """Whether this machine reaches what the command needs, and can keep its trials in."""
    host = socket.gethostname()
    why = _explain_unreachable(terms, files)
    if why:
        hint = "The folder of the command, its data and its environment must be at the same paths "
        return MachineCheck(
            host, why, f"{hint}on every machine of the cluster, on a shared file system."
        )
    if version != __version__:
        return MachineCheck(
            host, f"it has whyidle {__version__}, not {version}", "Install the same there."
        )
    with as_typed(terms):
        kept_in = TrialIsolation(network=terms.network)
        try:
            kept_in.check_isolation(terms.command, yes=terms.yes)
        except TrialError as error:
            return MachineCheck(host, f"{error.what} {error.why}", error.hint)
    return MachineCheck(host, level=kept_in.level)


def _explain_unreachable(terms: TrialTerms, files: Mapping[str, str]) -> str:
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
        if _file_digest(path) != digest:
            return f"{word} is another file there"
    return ""


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_remote(order: RemoteOrder) -> RemoteResult:
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
            kept_in = TrialIsolation(network=order.terms.network, level=order.terms.level)
            with kept_in.isolate_arm(folder) as guard:
                ran = arm.run_arm(order.terms.command, order.asked, folder, guard, order.slowest)
                ran = replace(ran, behind=guard.make_report())
            packed = pack_folder(ran.recording) if order.asked.profile else b""
            return RemoteResult(ran, packed, tuple(kept_in.leaks))
        finally:
            shutil.rmtree(top, ignore_errors=True)


def unpack_result(came: RemoteResult, folder: Path) -> ArmResult:
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


def pack_folder(folder: Path) -> bytes:
    """All files of a folder, in one piece."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as into:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                into.add(path, str(path.relative_to(folder)))
    return packed.getvalue()


@contextmanager
def as_typed(terms: TrialTerms) -> Iterator[None]:
    """Have this process in the folder and with the variables of whoever typed the command, but with
    the accelerators that the cluster gives it."""
    before, folder = dict(os.environ), Path.cwd()
    own = {name: before[name] for name in GIVEN if name in before}
    _become_environment({**terms.environment, **own})
    os.chdir(terms.here)
    try:
        yield
    finally:
        os.chdir(folder)
        _become_environment(before)


def _become_environment(variables: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(variables):
        del os.environ[name]
    os.environ.update(variables)
