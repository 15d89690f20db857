"""The job's processes, and the cores and memory that it shares.

On Linux from files of ``/proc`` and ``/sys/fs/cgroup`` that stay open; elsewhere the essentials
through psutil. Costs are medians by ``bench/sources.py`` on a 2-core virtual machine (Linux 6.18,
Python 3.11, 101 processes): a read of a job of 5 processes takes 245 us (quartiles 235 and 279; 587
us with cold caches at ten reads per second), 15 us more per further process, ``probe`` 1.3 ms.
"""

from __future__ import annotations

from collections.abc import Mapping

from whyidle.errors import InputError
from whyidle.machine.sources import _control_group, _machine, _pressure, _process, _process_tree
from whyidle.machine.sources._group_hierarchy import GroupHierarchy
from whyidle.machine.sources._psutil_job import PsutilJob
from whyidle.model.live.telemetry import Absent, Available, Meter, Reader, Reading, Target

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
