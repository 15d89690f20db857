"""The process to look at: whether it exists, who may look, and which processes it started."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from whyidle.errors import InputError
from whyidle.machine.sources._kernel_waits import open_files
from whyidle.model.redaction import redact_command

T = TypeVar("T")
_DIGITS = re.compile(r"\d+")
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


@dataclass(frozen=True, slots=True)
class TargetProcess:
    """A process and its descendants, as they were when it was found."""

    pid: int
    command: list[str]
    folder: str | None
    children: tuple[int, ...]
    recording: Path | None
    """folder of the ``whyidle run`` that watches it"""
    libraries: frozenset[str]
    """names of frameworks whose libraries are loaded"""
    holds_gpu: bool
    cores: float | None
    """that its scheduler's mask lets it use"""
    parents: Mapping[int, int] = field(default_factory=dict)
    """of the descendants"""
    has_only_parts: bool = False
    """whether it has descendants, all of them forked or started by Python's multiprocessing"""
    ranks: Mapping[int, int] = field(default_factory=dict)
    """of the processes that a launcher gave one (``RANK``)"""

    @property
    def pids(self) -> list[int]:
        """The process and its descendants."""
        return [self.pid, *self.children]

    def owner_of(self, pid: int, owners: Iterable[int]) -> int | None:
        """The nearest of some processes that started a process, directly or not."""
        known, seen = set(owners), set[int]()
        while pid not in known and pid not in seen:
            seen.add(pid)
            pid = self.parents.get(pid, self.pid)
        return pid if pid in known else None


_LIBRARIES = {"libtorch": "torch", "libtensorflow": "tensorflow", "jaxlib": "jax"}


def find_target(pid: int) -> TargetProcess:
    """Find a process.

    Raises:
        InputError: it does not exist, has ended, or may not be looked at.
    """
    try:
        process = psutil.Process(pid)
        command = process.cmdline()
        parents = _parents_of(process)
    except psutil.AccessDenied as error:
        raise _refusal(pid) from error
    except psutil.ZombieProcess as error:
        raise InputError(f"Process {pid} cannot be observed.", why="It has ended.") from error
    except (psutil.NoSuchProcess, OverflowError, ValueError) as error:
        raise InputError(
            f"There is no process {pid}.",
            why="There is no process with this id on this machine or in this container.",
            hint="whyidle watch --once lists jobs that hold a GPU; pgrep -af python lists others.",
        ) from error
    if not command:
        raise InputError(f"Process {pid} cannot be observed.", why="It belongs to the kernel.")
    try:
        environ = process.environ()
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except (PermissionError, psutil.AccessDenied) as error:
        raise _refusal(pid) from error
    except (OSError, psutil.Error) as error:
        raise InputError(f"Process {pid} ended before it could be observed.") from error
    run = environ.get("WHYIDLE_RUN", "")
    return TargetProcess(
        pid=pid,
        command=redact_command(command),
        folder=_ask(process.cwd),
        children=tuple(parents),
        recording=Path(run) if run else None,
        libraries=frozenset(name for text, name in _LIBRARIES.items() if text in maps),
        holds_gpu=any(_holds_gpu(one) for one in (pid, *parents)),
        cores=_ask(lambda: float(len(process.cpu_affinity()))),
        parents=parents,
        has_only_parts=bool(parents) and not any(_has_own_command(p, command) for p in parents),
        ranks={one: rank for one in (pid, *parents) if (rank := _rank_of(one)) is not None},
    )


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or left only its exit status."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _parents_of(process: psutil.Process) -> dict[int, int]:
    parents = {}
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parents[child.pid] = child.ppid()
    return parents


def _has_own_command(pid: int, command: list[str]) -> bool:
    own = _command_of(pid)
    return bool(own) and own != command and not any("multiprocessing" in word for word in own)


def _command_of(pid: int) -> list[str]:
    return _ask(lambda: psutil.Process(pid).cmdline()) or []


def children_of(pid: int) -> set[int]:
    """The processes that a process started itself; none if it has ended."""
    return {one.pid for one in _ask(lambda: psutil.Process(pid).children()) or ()}


def peers_of(pid: int) -> dict[int, int | None]:
    """A process and those that its parent started with the same command (but for numbers), with
    their ranks: of a job's rank, those of this machine. None: no launcher said which."""
    own = _DIGITS.sub("", str(_command_of(pid)))
    parent = _ask(lambda: psutil.Process(pid).ppid())
    others = children_of(parent) if parent else set()
    alike = {pid, *(n for n in others if _DIGITS.sub("", str(_command_of(n))) == own)}
    ranks = {one: _rank_of(one) for one in alike}
    return dict(sorted(ranks.items(), key=lambda item: (item[1] is None, item[1], item[0])))


def _rank_of(pid: int) -> int | None:
    text = (_ask(lambda: psutil.Process(pid).environ()) or {}).get("RANK", "")
    return int(text) if text.isdecimal() else None


def _ask(question: Callable[[], T]) -> T | None:
    """The answer of psutil; None without the right to know."""
    try:
        return question()
    except (psutil.Error, OSError):
        return None


def _holds_gpu(pid: int) -> bool:
    return any(
        name.startswith("/dev/nvidia") and name[11:12].isdigit()
        for name in open_files(Path(f"/proc/{pid}"))
    )


def _refusal(pid: int) -> InputError:
    try:
        owner = pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid).pw_name
    except (OSError, KeyError):
        owner = "another user"
    return refuse_access(pid, owner)


def refuse_access(pid: int, owner: str | None = None, command: str = "") -> InputError:
    """The error of a process that may not be read, with the command that grants the right."""
    command = command or f"whyidle attach {pid}"
    if owner is not None and owner != pwd.getpwuid(os.geteuid()).pw_name:
        return InputError(
            f"Process {pid} may not be read.",
            why=f"It belongs to {owner}.",
            hint=f"sudo -u {owner} {command}",
        )
    scope = _YAMA.read_text().strip() if _YAMA.exists() else "0"
    if scope in ("1", "2"):
        return InputError(
            f"Process {pid} may not be read.",
            why=f"The kernel lets a process be read by its parent only (ptrace_scope is {scope}).",
            hint=f"sudo {command}, or until the next start: sudo sysctl kernel.yama.ptrace_scope=0",
        )
    if scope == "3":
        return InputError(
            f"Process {pid} may not be read.",
            why="The kernel lets no process be read (ptrace_scope is 3, until the next start).",
            hint="Start the next job with whyidle run.",
        )
    return InputError(
        f"Process {pid} may not be read.",
        why="The kernel refused it. In a container the right SYS_PTRACE may be missing.",
        hint="docker run --cap-add SYS_PTRACE ..., in Kubernetes capabilities.add: "
        f"[SYS_PTRACE], or on the host: sudo {command}",
    )
