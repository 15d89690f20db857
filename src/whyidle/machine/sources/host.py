"""The job's processes, and the cores and memory that it shares, on Linux.

Read from files of ``/proc`` and ``/sys/fs/cgroup`` that stay open. Costs are medians by
``bench/sources.py`` on a 2-core virtual machine (Linux 6.18, Python 3.11, 101 processes): a read of
a job of 5 processes takes 245 us (quartiles 235 and 279; 587 us with cold caches at ten reads per
second), 15 us more per further process, ``probe`` 1.3 ms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from whyidle.errors import InputError
from whyidle.machine.sources import _control_group, _process_tree
from whyidle.machine.sources._control_group import GroupHierarchy
from whyidle.machine.sources._open_file import OpenFile, explain_unreadable, parse_numbers
from whyidle.model.live.telemetry import (
    Absent,
    Available,
    Meter,
    Reader,
    Reading,
    Target,
    make_meters,
)

RESOURCES: Final = ("cpu", "io", "memory")
_HOW: Final = "boot Linux 4.20 or later with psi=1"
_WAITS: Final = {"cpu": "a core", "io": "storage", "memory": "memory"}
_GROUPS_ONLY: Final = Absent("only control groups of version 2 report pressure")

_PRESSURE: Final = tuple(
    Meter(
        id=f"{scope}pressure_{resource}_{how}_{unit}",
        unit="ratio" if unit == "ratio" else "s",
        kind="gauge" if unit == "ratio" else "counter",
        meaning=f"time that {'some' if how == 'some' else 'all'} tasks of the "
        f"{'control group' if scope else 'machine'} waited for {_WAITS[resource]}"
        + (", share of the last 10 s" if unit == "ratio" else ""),
        group=f"{scope}pressure {resource}",
        cost_us=4.7,
    )
    for scope in ("", "group_")
    for resource in RESOURCES
    for how in ("some", "full")
    for unit in ("ratio", "s")
)


class Pressure:
    """How long tasks waited for cores, storage and memory (PSI; Linux,
    Documentation/accounting/psi.rst): one file per resource, of the machine and, in version 2, of
    the job's control group."""

    def __init__(self, root: Path, levels: GroupHierarchy) -> None:
        own = levels.unified or root / "none"
        self._files: dict[str, OpenFile] = {}
        self.missing: dict[str, Absent] = {}
        for resource in RESOURCES:
            self._open_file(f"pressure_{resource}", root / "proc/pressure" / resource)
            self._open_file(f"group_pressure_{resource}", own / f"{resource}.pressure")

    def _open_file(self, prefix: str, path: Path) -> None:
        file = OpenFile(path)
        if file.read() is not None:  # opens, and then refuses, where the kernel has psi=0
            self._files[prefix] = file
            return
        file.close()
        absent = _GROUPS_ONLY if prefix.startswith("group_") else explain_unreadable(path, _HOW)
        names = (meter.id for meter in _PRESSURE if meter.id.startswith(f"{prefix}_"))
        self.missing.update(dict.fromkeys(names, absent))

    def read(self, into: Reading) -> None:
        """Add every value."""
        for prefix, file in self._files.items():
            into.update(parse_pressure(file.read(), prefix))

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()


def parse_pressure(content: bytes | None, prefix: str) -> Reading:
    """Parse ``some avg10=1.23 avg60=.. avg300=.. total=MICROSECONDS``, and the same of ``full``."""
    into: Reading = {}
    for line in (content or b"").splitlines():
        words = line.split()
        if len(words) == 5 and words[0] in (b"some", b"full"):
            name = f"{prefix}_{words[0].decode()}"
            into[f"{name}_ratio"] = float(words[1].partition(b"=")[2]) / 100
            into[f"{name}_s"] = int(words[4].partition(b"=")[2]) / 1e6
    return into


_CORES = make_meters(
    "cores",
    9.8,
    ("machine_cpu_user_s", "s", "counter", "CPU time of all programs on all cores"),
    ("machine_cpu_system_s", "s", "counter", "CPU time in the kernel, interrupts included"),
    ("machine_cpu_idle_s", "s", "counter", "time that cores had nothing to do"),
    ("machine_cpu_stolen_s", "s", "counter", "time given to other virtual machines (steal)"),
)
_MEMORY = make_meters(
    "memory",
    14.2,
    ("machine_memory_bytes", "bytes", "gauge", "memory of the machine"),
    ("machine_memory_available_bytes", "bytes", "gauge", "memory available without swapping"),
)
_PAGING = make_meters(
    "paging", 22.7, ("machine_faults_major", "1", "counter", "page faults that waited for storage")
)
_SHM = make_meters(
    "shm",
    2.2,
    ("shm_used_bytes", "bytes", "gauge", "used space in /dev/shm, such as batches of workers"),
    ("shm_free_bytes", "bytes", "gauge", "free space in /dev/shm"),
)
_GROUPS: Final = {"stat": _CORES, "loadavg": (), "meminfo": _MEMORY, "vmstat": _PAGING}


class Machine:
    """Reads the files of ``/proc`` about the whole machine."""

    def __init__(self, root: Path) -> None:
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._shm = root / "dev/shm"
        self._files = {name: OpenFile(root / "proc" / name) for name in _GROUPS}
        self._idle_s: float | int = 0
        self.missing: dict[str, Absent] = {}
        for name, group in _GROUPS.items():
            if not self._files[name].is_open:
                self._note_missing(group, explain_unreadable(root / "proc" / name))
        if not self._shm.is_dir():
            self._note_missing(_SHM, Absent("this system has no /dev/shm"))

    def _note_missing(self, group: tuple[Meter, ...], absent: Absent) -> None:
        self.missing.update({meter.id: absent for meter in group})

    def read(self, into: Reading) -> bytes:
        """Add every value; return the last started task's id, empty if unknown."""
        cores = parse_cores(self._files["stat"].read(1 << 20), self._tick_s)
        if (idle := cores["machine_cpu_idle_s"]) is not None:
            # it may fall a little, as the kernel sums it per core without a lock (proc_stat(5))
            cores["machine_cpu_idle_s"] = self._idle_s = max(idle, self._idle_s)
        into.update(cores)
        load = (self._files["loadavg"].read() or b"").split()
        into.update(parse_memory(self._files["meminfo"].read()))
        paging = parse_numbers(self._files["vmstat"].read(), b"pgmajfault ")
        into["machine_faults_major"] = paging.get(b"pgmajfault ")
        into.update(_shared_memory(self._shm))
        return load[4] if len(load) > 4 else b""

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()


def parse_cores(content: bytes | None, tick_s: float) -> Reading:
    """Parse the line of all cores in ``/proc/stat``."""
    words = (content or b"").partition(b"\n")[0].split()
    into: Reading = dict.fromkeys(meter.id for meter in _CORES)
    if content is None or len(words) < 9:
        return into
    user, nice, system, idle, waits, irq, soft, stolen = (int(word) for word in words[1:9])
    into["machine_cpu_user_s"] = (user + nice) * tick_s
    into["machine_cpu_system_s"] = (system + irq + soft) * tick_s
    into["machine_cpu_idle_s"] = (idle + waits) * tick_s
    into["machine_cpu_stolen_s"] = stolen * tick_s
    return into


def parse_memory(content: bytes | None) -> Reading:
    """Parse ``/proc/meminfo``, in KiB."""
    lines = (b"MemTotal:", b"MemAvailable:")
    kib = parse_numbers(content, *lines)
    total, free = (kib[line] << 10 if line in kib else None for line in lines)
    return {"machine_memory_bytes": total, "machine_memory_available_bytes": free}


def _shared_memory(folder: Path) -> Reading:
    try:
        status = os.statvfs(folder)
    except OSError:
        return dict.fromkeys(meter.id for meter in _SHM)
    return {
        "shm_used_bytes": (status.f_blocks - status.f_bfree) * status.f_frsize,
        "shm_free_bytes": status.f_bavail * status.f_frsize,
    }


SIGNALS: tuple[Meter, ...] = (
    *_process_tree.METERS,
    *_CORES,
    *_MEMORY,
    *_PAGING,
    *_SHM,
    *_PRESSURE,
    *_control_group.METERS,
)
PERIOD_S = 0.5


class _Host:
    def __init__(self, target: Target) -> None:
        levels = GroupHierarchy(target.root, target.pid)
        self._job = _process_tree.ProcessTree(target.root, target.pid)
        self._machine = Machine(target.root)
        self._pressure = Pressure(target.root, levels)
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
    """Return what this system offers."""
    reader = open(target)
    reader.close()
    return Available(reader.missing)


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read the process tree of ``target.pid``; with 0 the machine alone.

    Raises:
        InputError: there is no such process.
    """
    if target.pid and not (target.root / f"proc/{target.pid}").exists():
        raise InputError(f"There is no process {target.pid}.", why="It may have ended.")
    return _Host(target)
