"""The processes of a machine: what of them can be read without ptrace, read once for each."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from whyidle.machine.sources._kernel_waits import open_files
from whyidle.model.live.tenancy import ProcessIdentity

_KEPT = re.compile(
    r"WHYIDLE_RUN|WHYIDLE_SEARCH|SLURM_(JOB_ID|JOB_NAME|JOB_PARTITION|PROCID|STEP_ID)|HOSTNAME|RANK|WORLD_SIZE"
    r"|KUBERNETES_SERVICE_HOST|APPTAINER_NAME|SINGULARITY_NAME|CUDA_VISIBLE_DEVICES"
)
"""environment variables that are kept; others may hold secrets"""
FIRST_NAMESPACE = "pid:[4026531836]"
"""of the machine itself (PROC_PID_INIT_INO in Linux' include/linux/proc_ns.h)"""


@dataclass(slots=True)
class SeenProcess:
    """One process. ``environ`` is None where another user's may not be read."""

    pid: int
    parent: int
    started_ticks: int
    user: str | None
    command: list[str]
    cgroup: str
    environ: Mapping[str, str] | None
    first_seen: float = field(default_factory=time.monotonic)
    settled: bool = False

    def identity(self, root: Path) -> ProcessIdentity:
        """What tenants read of it."""
        return ProcessIdentity(
            pid=self.pid, user=self.user, cgroup=self.cgroup, environ=self.environ, root=root
        )


class ProcessTable:
    """All processes below a root file system, or one process with its descendants, refreshed at
    every look."""

    def __init__(self, root: Path = Path("/"), top: int | None = None) -> None:
        self._root, self._proc, self._top = root, root / "proc", top
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self.processes: dict[int, SeenProcess] = {}

    def refresh(self) -> None:
        """Read new processes, forget those that have ended."""
        try:
            alive = (
                {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208
                if self._top is None
                else _descendants(self._proc, self._top)
            )
        except OSError:
            alive = set()
        alive.discard(os.getpid())
        for pid in self.processes.keys() - alive:
            del self.processes[pid]
        for pid in alive:
            known = self.processes.get(pid)
            if known is None or not known.settled:
                self._read_process(pid, known)

    def _read_process(self, pid: int, known: SeenProcess | None) -> None:
        folder = self._proc / str(pid)
        try:
            words = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            user = _user_name((folder / "stat").stat().st_uid)
            command = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
            cgroup = (folder / "cgroup").read_text(encoding="utf-8", errors="replace")
            parent, started = int(words[1]), int(words[19])
        except (OSError, IndexError, ValueError):
            self.processes.pop(pid, None)
            return
        seen = SeenProcess(
            pid, parent, started, user, command.rstrip("\0").split("\0"), cgroup,
            _read_environ(folder / "environ"),
        )  # fmt: skip
        if known is not None and known.started_ticks == started:
            seen.first_seen = known.first_seen
        # a process that has just started may still be a copy of its parent
        seen.settled = time.monotonic() - seen.first_seen > 5.0 or not command
        self.processes[pid] = seen

    def age_s(self, pid: int) -> float | None:
        """How long ago a process started."""
        seen = self.processes.get(pid)
        if seen is None:
            return None
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - seen.started_ticks * self._tick_s)

    def is_driver_pid(self, pid: int) -> bool:
        """Whether a process that a GPU's driver names is the one of this number. Drivers count in
        the first PID namespace: in a container the number may be another process's, and only one
        that has the device open is it."""
        if pid not in self.processes:
            return False
        nested = _namespace_of(self._proc) not in (FIRST_NAMESPACE, "")
        if not nested or not (self._root / "dev/nvidiactl").exists():
            return True
        return any(name.startswith("/dev/nvidia") for name in open_files(self._proc / str(pid)))

    def ancestors(self, pid: int) -> Iterable[SeenProcess]:
        """A process, its parent, and so on."""
        for _ in range(64):
            seen = self.processes.get(pid)
            if seen is None:
                return
            yield seen
            pid = seen.parent


def _descendants(proc: Path, top: int) -> set[int]:
    """A process and those below it, as the kernel lists children (CONFIG_PROC_CHILDREN)."""
    found: set[int] = set()
    waiting = [top]
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        with suppress(OSError):  # it has ended
            for path in (proc / str(pid) / "task").iterdir():
                with suppress(OSError):
                    waiting += map(int, (path / "children").read_text(encoding="ascii").split())
    return found


def _namespace_of(proc: Path) -> str:
    try:
        return str((proc / "self/ns/pid").readlink())
    except OSError:
        return ""


def _read_environ(path: Path) -> dict[str, str] | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    pairs = (item.decode("utf-8", "replace").partition("=") for item in content.split(b"\0"))
    return {name: value for name, _, value in pairs if _KEPT.fullmatch(name)}


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
