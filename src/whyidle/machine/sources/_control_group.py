"""Resources that control group and affinity allow a job: cores, memory, and throttled time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from whyidle.machine.sources._open_file import OpenFile, parse_count, parse_numbers, read_text
from whyidle.model.live.telemetry import Absent, Reading, make_meters

_UNLIMITED: Final = 1 << 60
"""version 1 writes a number near 2**63 for no limit"""
_MEMORY_FILES: Final = {
    2: ("memory.current", "memory.stat", "memory.max"),
    1: ("memory.usage_in_bytes", "memory.stat", "memory.limit_in_bytes"),
}


class GroupHierarchy:
    """The control groups of a process up to the top, of both versions. In a container the group's
    path may be outside the mount, whose top then is the group."""

    def __init__(self, root: Path, pid: int) -> None:
        self._mount = root / "sys/fs/cgroup"
        self._paths: dict[str, str] = {}
        for line in read_text(root / f"proc/{pid or 'self'}/cgroup").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            self._paths.update(dict.fromkeys(controllers.split(","), path))
        self.unified = next(iter(self._group_folders("", "")), None)

    def _group_folders(self, controller: str, below: str) -> Iterator[Path]:
        if controller not in self._paths:
            return
        mount = self._mount / below
        folder = mount / self._paths[controller].lstrip("/")
        while folder != mount and mount in folder.parents:
            if folder.is_dir():
                yield folder
            folder = folder.parent
        if mount.is_dir():
            yield mount

    def quota_files(self) -> tuple[tuple[OpenFile, ...] | None, OpenFile | None, int]:
        """Return the files of the tightest quota, of its throttling, and their version."""
        quotas: list[tuple[float, tuple[OpenFile, ...], Path, int]] = []
        stats: list[tuple[Path, int]] = []
        for version, below, names in (
            (2, "", ("cpu.max",)),
            (1, "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")),
        ):
            for folder in self._group_folders("" if version == 2 else "cpu", below):
                stats.append((folder, version))
                files = tuple(OpenFile(folder / name) for name in names)
                cores = quota_cores(files)
                if cores is None:
                    _close_files(files)
                else:
                    quotas.append((cores, files, folder, version))
        quotas.sort(key=lambda quota: quota[0])
        for _, files, _, _ in quotas[1:]:
            _close_files(files)
        if quotas:
            _, files, folder, version = quotas[0]
            return files, OpenFile(folder / "cpu.stat"), version
        for folder, version in stats:
            file = OpenFile(folder / "cpu.stat")
            if b"nr_throttled" in (file.read() or b""):
                return None, file, version
            file.close()
        return None, None, 0

    def cpuset_cores(self) -> int | None:
        """Return the number of cores in the cpuset of the innermost group that has one."""
        for controller, below, name in (
            ("", "", "cpuset.cpus.effective"),
            ("cpuset", "cpuset", "cpuset.effective_cpus"),
            ("cpuset", "cpuset", "cpuset.cpus"),
        ):
            for folder in self._group_folders(controller, below):
                if cores := count_cores(read_text(folder / name)):
                    return cores
        return None

    def memory_files(self) -> tuple[OpenFile | None, dict[str, OpenFile]]:
        """Return the file of the tightest limit, and the files of that group's use."""
        best: tuple[int, Path, int] | None = None
        leaf: tuple[int, Path, int] | None = None
        for version, controller, below in ((2, "", ""), (1, "memory", "memory")):
            for folder in self._group_folders(controller, below):
                if not (folder / _MEMORY_FILES[version][0]).exists():
                    continue
                leaf = leaf or (_UNLIMITED, folder, version)
                text = read_text(folder / _MEMORY_FILES[version][2])
                limit = finite_limit(parse_count(text.encode()))
                if limit is not None and (best is None or limit < best[0]):
                    best = limit, folder, version
        chosen = best or leaf
        if chosen is None:
            return None, {}
        _, folder, version = chosen
        used, stat, limited = (folder / name for name in _MEMORY_FILES[version])
        files = {"used": OpenFile(used), "stat": OpenFile(stat)}
        return (OpenFile(limited) if best else None), files


def quota_cores(files: tuple[OpenFile, ...] | None) -> float | None:
    """Return the quota in cores, from one file (version 2) or two (version 1)."""
    if not files:
        return None
    words = b" ".join(file.read() or b"" for file in files).split()
    if len(words) != 2 or not (words[0].isdigit() and words[1].isdigit()) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1]) or None


def count_cores(listed: str) -> int | None:
    """Return how many cores a list of ranges (``0-3,8``) names; None if it is none."""
    bounds = [part.partition("-")[::2] for part in listed.split(",")]
    if not all(low.isdigit() and (not high or high.isdigit()) for low, high in bounds):
        return None
    return sum(int(high or low) - int(low) + 1 for low, high in bounds)


def finite_limit(limit: int | None) -> int | None:
    """Return a limit; None for one that does not limit."""
    return limit if limit is not None and limit < _UNLIMITED else None


def _close_files(files: tuple[OpenFile, ...]) -> None:
    for file in files:
        file.close()


METERS: Final = (
    *make_meters("affinity", 0.7,
        ("cores_allowed", "1", "gauge", "cores that the job may run on"),
        ("cores_cpuset", "1", "gauge", "cores of its control group's cpuset")),
    *make_meters("group cpu", 5.5,
        ("cores_quota", "1", "gauge", "CPU quota of its control group, in cores"),
        ("cores_effective", "1", "gauge", "the smaller of cores allowed and quota"),
        ("throttled_s", "s", "counter", "time that tasks were throttled by the quota"),
        ("throttled_periods", "1", "counter", "scheduling periods in which the quota ran out"),
        ("quota_periods", "1", "counter", "scheduling periods with the quota in force")),
    *make_meters("group memory", 13.2,
        ("group_memory_bytes", "bytes", "gauge", "memory of the control group with page cache"),
        ("group_memory_limit_bytes", "bytes", "gauge", "the tightest limit on it"),
        ("group_memory_file_bytes", "bytes", "gauge", "of it, page cache"),
        ("group_read_again_bytes", "bytes", "counter", "file data read again after its eviction")),
)  # fmt: skip
_THROTTLE: Final = ("throttled_s", "throttled_periods", "quota_periods")
_AGAIN: Final = (
    b"total_workingset_refault_file ",
    b"workingset_refault_file ",
    b"total_workingset_refault ",
    b"workingset_refault ",
)
"""pages; of the group and those below it in version 1, then 2; each before Linux 5.9"""
_MEMORY: Final = tuple(meter.id for meter in METERS if meter.group == "group memory")


class ControlGroup:
    """The tightest levels of a process's control groups."""

    def __init__(self, levels: GroupHierarchy, pid: int) -> None:
        self._pid = pid
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._quota, self._cpu_stat, self._version = levels.quota_files()
        self._limit, self._memory = levels.memory_files()
        self._cpuset = levels.cpuset_cores()
        self.missing: dict[str, Absent] = {}
        if self._cpuset is None:
            self.missing["cores_cpuset"] = Absent("no cpuset control group was found")
        if self._quota is None:
            self.missing["cores_quota"] = Absent("no quota is set on the job's control group")
        if self._cpu_stat is None:
            absent = Absent("the control group does not record throttling")
            self.missing.update(dict.fromkeys(_THROTTLE, absent))
        if self._limit is None:
            self.missing["group_memory_limit_bytes"] = Absent("no limit is set")
        if not self._memory:
            self.missing.update(dict.fromkeys(_MEMORY, Absent("no memory control group was found")))

    def read(self, into: Reading) -> None:
        """Add every value."""
        allowed = _affinity_size(self._pid)
        quota = quota_cores(self._quota)
        into["cores_allowed"], into["cores_quota"] = allowed, quota
        into["cores_cpuset"] = self._cpuset
        known = [cores for cores in (allowed, quota) if cores is not None]
        into["cores_effective"] = min(known, default=None)
        into.update(self._read_throttling())
        into.update(self._memory_now())

    def _read_throttling(self) -> Reading:
        time_key = b"throttled_usec " if self._version == 2 else b"throttled_time "
        content = self._cpu_stat.read() if self._cpu_stat else None
        numbers = parse_numbers(content, b"nr_periods ", b"nr_throttled ", time_key)
        throttled = numbers.get(time_key)
        scale = 1e-6 if self._version == 2 else 1e-9
        return {
            "throttled_s": None if throttled is None else throttled * scale,
            "throttled_periods": numbers.get(b"nr_throttled "),
            "quota_periods": numbers.get(b"nr_periods "),
        }

    def _memory_now(self) -> Reading:
        used, stat = (self._memory[n].read() if self._memory else None for n in ("used", "stat"))
        memory = parse_numbers(stat, b"total_cache ", b"file ", *_AGAIN)
        again = next((memory[name] for name in _AGAIN if name in memory), None)
        limit = parse_count(self._limit.read() or b"") if self._limit else None
        return {
            "group_memory_bytes": parse_count(used or b""),
            "group_memory_limit_bytes": finite_limit(limit),
            "group_memory_file_bytes": memory.get(b"total_cache ", memory.get(b"file ")),
            "group_read_again_bytes": None if again is None else again * self._page,
        }

    def close(self) -> None:
        """Close every file."""
        for file in (*(self._quota or ()), *self._memory.values(), self._cpu_stat, self._limit):
            if file is not None:
                file.close()


def _affinity_size(pid: int) -> int | None:
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:
        return None
