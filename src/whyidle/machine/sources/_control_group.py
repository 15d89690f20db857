"""Resources that control group and affinity allow a job: cores, memory, and throttled time."""

from __future__ import annotations

import os
from typing import Final

from whyidle.machine.sources._group_hierarchy import GroupHierarchy, finite_limit, quota_cores
from whyidle.machine.sources._open_file import parse_count, parse_numbers
from whyidle.model.live.telemetry import Absent, Reading, make_meters

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
