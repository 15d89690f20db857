"""The job's processes, and the cores and memory that it shares.

On Linux from files of ``/proc`` and ``/sys/fs/cgroup`` that stay open; elsewhere the essentials
through psutil. Costs are medians by ``bench/sources.py`` on a 2-core virtual machine (Linux 6.18,
Python 3.11, 101 processes): a read of a job of 5 processes takes 245 us (quartiles 235 and 279; 587
us with cold caches at ten reads per second), 15 us more per further process, ``probe`` 1.3 ms.

Processes and memory of a job without ``/proc``, on macOS and Windows, through psutil. psutil
walks all processes of the machine to find a job's (1.9 ms with 101 of them), so this is read every
two seconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

import psutil

from whyidle.errors import InputError
from whyidle.machine.sources import _control_group, _machine, _pressure, _process, _process_tree
from whyidle.machine.sources._group_hierarchy import GroupHierarchy
from whyidle.model.live.telemetry import Absent, Available, Meter, Reader, Reading, Target

_SUMMED: Final = ("cpu_user_s", "cpu_system_s", "memory_resident_bytes")
GIVEN: Final = frozenset(
    {
        *_SUMMED,
        *(f"job_{name}" for name in _SUMMED),
        "job_processes",
        "machine_memory_bytes",
        "machine_memory_available_bytes",
        "machine_cpu_user_s",
        "machine_cpu_system_s",
        "machine_cpu_idle_s",
        "cores_effective",
    }
)

_COUNTERS: Final = _SUMMED[:2]
ELSEWHERE: Final = Absent("available on Linux only")


class PsutilJob:
    """A job by psutil."""

    def __init__(self, pid: int, offered: frozenset[str]) -> None:
        self._pid = pid
        self._last: dict[int, Reading] = {}
        self._ended: dict[str, float | int] = dict.fromkeys(_COUNTERS, 0)
        self.facts: dict[str, str] = {}
        self.missing = dict.fromkeys(offered - GIVEN, ELSEWHERE)

    def read(self) -> Reading:
        """Return every value now."""
        into: Reading = {}
        now = {process.pid: values for process, values in self._read_processes()}
        for pid in self._last.keys() - now.keys():
            for name in _COUNTERS:
                self._ended[name] += self._last[pid].get(name) or 0
        self._last = now
        for pid, values in now.items():
            into.update({f"{name}@pid{pid}": value for name, value in values.items()})
        for name in _SUMMED:
            alive = sum(values.get(name) or 0 for values in now.values())
            into[f"job_{name}"] = self._ended.get(name, 0) + alive
        into["job_processes"] = len(now)
        into.update(_read_machine())
        return into

    def _read_processes(self) -> list[tuple[psutil.Process, Reading]]:
        try:
            root = psutil.Process(self._pid)
            members = [root, *root.children(recursive=True)]
        except psutil.Error:
            return []
        return [(process, values) for process in members if (values := _read_process(process))]

    def close(self) -> None:
        """Do nothing, as nothing stays open."""


def _read_process(process: psutil.Process) -> Reading:
    try:
        with process.oneshot():
            times = process.cpu_times()
            return {
                "cpu_user_s": times.user,
                "cpu_system_s": times.system,
                "memory_resident_bytes": process.memory_info().rss,
            }
    except psutil.Error:
        return {}


def _read_machine() -> Reading:
    into: Reading = {"cores_effective": psutil.cpu_count()}
    with contextlib.suppress(OSError):
        memory, cores = psutil.virtual_memory(), psutil.cpu_times()
        into["machine_memory_bytes"] = memory.total
        into["machine_memory_available_bytes"] = memory.available
        into["machine_cpu_user_s"] = cores.user
        into["machine_cpu_system_s"] = cores.system
        into["machine_cpu_idle_s"] = cores.idle
    return into


SIGNALS: tuple[Meter, ...] = (
    *_process.METERS,
    *_process_tree.METERS,
    *_machine.METERS,
    *_pressure.METERS,
    *_control_group.METERS,
)
PERIOD_S = 0.5


class _LinuxHost:
    def __init__(self, target: Target) -> None:
        levels = GroupHierarchy(target.root, target.pid)
        self._job = _process_tree.ProcessTree(target.root, target.pid)
        self._machine = _machine.Machine(target.root)
        self._pressure = _pressure.Pressure(target.root, levels)
        self._group = _control_group.ControlGroup(levels, target.pid)
        self.facts: Mapping[str, str] = {}
        self.missing: Mapping[str, Absent] = {
            **self._job.missing,
            **self._machine.missing,
            **self._pressure.missing,
            **self._group.missing,
        }

    def read(self) -> Reading:
        """Every value now."""
        into: Reading = {}
        born = self._machine.read(into)
        self._pressure.read(into)
        self._group.read(into)
        self._job.read(into, born)
        return into

    def close(self) -> None:
        """Close every file."""
        for part in (self._job, self._machine, self._pressure, self._group):
            part.close()


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Return what this system offers; some of it on every system."""
    reader = open(target)
    reader.close()
    return Available(reader.missing)


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read the process tree of ``target.pid``; with 0 the machine alone.

    Raises:
        InputError: there is no such process.
    """
    if (target.root / "proc/stat").exists():
        if target.pid and not (target.root / f"proc/{target.pid}").exists():
            raise InputError(f"There is no process {target.pid}.", why="It may have ended.")
        return _LinuxHost(target)
    return PsutilJob(target.pid, frozenset(meter.id for meter in SIGNALS))
