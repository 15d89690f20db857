"""Runs an arm on another machine, for executors of clusters.

The arm runs in the command's folder, with the user's environment variables, in an isolation that is
set up there. It writes to a temporary folder; the result and the recording are returned.
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

from whyidle.errors import TrialError
from whyidle.fix.arms import arm
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.arms.isolation_report import TrialIsolation
from whyidle.fix.executor import TrialTerms
from whyidle.fix.isolation import Leak, Level
from whyidle.version import __version__

GIVEN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""variables by which a cluster assigns accelerators"""
MOST_BYTES = 1 << 28  # size up to which files named in the command are compared


@dataclass(frozen=True, slots=True)
class RemoteOrder:
    """An arm to run."""

    terms: TrialTerms
    asked: ArmRequest
    name: str


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """The result of an arm: its recording, packed, if it was diagnosed; and blocked actions."""

    ran: ArmResult
    recording: bytes
    leaks: tuple[Leak, ...]


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """Whether a machine can run arms: ``why`` not (empty: it can), what to do, its isolation."""

    host: str
    why: str = ""
    hint: str = ""
    level: Level = "python"


def named_files(terms: TrialTerms) -> dict[str, str]:
    """Digests of the files that the command names."""
    digests = {}
    for word in terms.command[1:]:
        with suppress(OSError):  # a program in a word (-c) is too long for a file name
            path = terms.here / word
            if path.is_file() and path.stat().st_size <= MOST_BYTES:
                digests[word] = _file_digest(path)
    return digests


def check_machine(terms: TrialTerms, files: Mapping[str, str], version: str) -> MachineCheck:
    """Check that this machine has the command's files, and can isolate trials."""
    host = socket.gethostname()
    why = _explain_unreachable(terms, files)
    if why:
        hint = "Use a shared file system: the command's folder, data and environment must have the "
        return MachineCheck(host, why, f"{hint}same paths on every machine of the cluster.")
    if version != __version__:
        return MachineCheck(
            host, f"it has whyidle {__version__}, not {version}", "Install the same version there."
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
        return f"the folder {terms.here} does not exist"
    program = terms.command[0]
    place = str(terms.here / program) if Path(program).name != program else program
    if shutil.which(place, path=terms.environment.get("PATH")) is None:
        return f"the program {program} does not exist"
    for word, digest in files.items():
        path = terms.here / word
        if not path.is_file():
            return f"the file {word} does not exist"
        if _file_digest(path) != digest:
            return f"the file {word} is different"
    return ""


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_remote(order: RemoteOrder) -> RemoteResult:
    """Run an arm on this machine.

    Raises:
        OSError: the patched files cannot be copied.
        TrialError: the isolation is no longer available.
    """
    with as_typed(order.terms):
        top = Path(tempfile.mkdtemp(prefix="whyidle-fix-"))
        try:
            folder = top / order.name
            folder.mkdir()
            kept_in = TrialIsolation(network=order.terms.network, level=order.terms.level)
            with kept_in.isolate_arm(folder) as guard:
                ran = arm.run_arm(order.terms.command, order.asked, folder, guard)
                ran = replace(ran, isolation=guard.make_report())
            packed = pack_folder(ran.recording) if order.asked.profile else b""
            return RemoteResult(ran, packed, tuple(kept_in.leaks))
        finally:
            shutil.rmtree(top, ignore_errors=True)


def unpack_result(result: RemoteResult, folder: Path) -> ArmResult:
    """Unpack the recording into ``folder`` on this machine."""
    recording = folder / "recording"
    recording.mkdir(parents=True, exist_ok=True)
    if result.recording:
        with tarfile.open(fileobj=io.BytesIO(result.recording)) as packed:
            for member in packed:
                path, content = recording / member.name, packed.extractfile(member)
                if content is not None and path.resolve().is_relative_to(recording.resolve()):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content.read())
    return replace(result.ran, recording=recording)


def pack_folder(folder: Path) -> bytes:
    """Pack all files of a folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as into:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                into.add(path, str(path.relative_to(folder)))
    return packed.getvalue()


@contextmanager
def as_typed(terms: TrialTerms) -> Iterator[None]:
    """Switch to the user's folder and environment, but keep the assigned accelerators."""
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
