"""What a job's control group and affinity leave to it: cores, memory, and time held back."""

from __future__ import annotations

import os
from typing import Final

from whyidle.model.telemetry import Absent, Reading, make_meters
from whyidle.sources._group_hierarchy import GroupHierarchy, finite_limit, quota_cores
from whyidle.sources._open_file import parse_count, parse_numbers

METERS: Final = (
    *make_meters("affinity", 0.7, ("cores_allowed", "1", "gauge", "cores that the job may run on")),
    *make_meters(
        "group cpu",
        5.5,
        ("cores_quota", "1", "gauge", "cores' worth of time that its control group grants"),
        ("cores_effective", "1", "gauge", "the smaller of cores allowed and quota"),
        ("throttled_s", "s", "counter", "time that tasks were held back by the quota"),
        ("throttled_periods", "1", "counter", "scheduling periods in which the quota ran out"),
        ("quota_periods", "1", "counter", "scheduling periods that the quota was kept in"),
    ),
    *make_meters(
        "group memory",
        13.2,
        (
            "group_memory_bytes",
            "bytes",
            "gauge",
            "memory of the control group, page cache included",
        ),
        ("group_memory_limit_bytes", "bytes", "gauge", "the tightest limit on it"),
        ("group_memory_file_bytes", "bytes", "gauge", "of it, page cache"),
        (
            "group_read_again_bytes",
            "bytes",
            "counter",
            "content of files that was read again, as it had been taken from the page cache",
        ),
        ("group_out_of_memory_kills", "1", "counter", "processes ended by that limit"),
    ),
)
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
        self.missing: dict[str, Absent] = {}
        if not hasattr(os, "sched_getaffinity"):
            self.missing["cores_allowed"] = Absent("this system has no affinity of processes")
        if self._quota is None:
            self.missing["cores_quota"] = Absent("no quota is set on the job's control group")
        if self._cpu_stat is None:
            absent = Absent("the control group does not account for throttling")
            self.missing.update(dict.fromkeys(_THROTTLE, absent))
        if self._limit is None:
            self.missing["group_memory_limit_bytes"] = Absent("no limit is set")
        if not self._memory:
            self.missing.update(dict.fromkeys(_MEMORY, Absent("no memory control group is seen")))

    def read(self, into: Reading) -> None:
        """Add every value."""
        allowed = _affinity_size(self._pid)
        quota = quota_cores(self._quota)
        into["cores_allowed"], into["cores_quota"] = allowed, quota
        known = [cores for cores in (allowed, quota) if cores is not None]
        into["cores_effective"] = min(known, default=None)
        into.update(self._read_throttling())
        into.update(self._memory_now())

    def _read_throttling(self) -> Reading:
        spent_name = b"throttled_usec " if self._version == 2 else b"throttled_time "
        content = self._cpu_stat.read() if self._cpu_stat else None
        told = parse_numbers(content, b"nr_periods ", b"nr_throttled ", spent_name)
        spent = told.get(spent_name)
        scale = 1e-6 if self._version == 2 else 1e-9
        return {
            "throttled_s": None if spent is None else spent * scale,
            "throttled_periods": told.get(b"nr_throttled "),
            "quota_periods": told.get(b"nr_periods "),
        }

    def _memory_now(self) -> Reading:
        used, stat, events = (
            self._memory[name].read() if self._memory else None
            for name in ("used", "stat", "events")
        )
        held = parse_numbers(stat, b"total_cache ", b"file ", *_AGAIN)
        again = next((held[name] for name in _AGAIN if name in held), None)
        happened = parse_numbers(events, b"oom_kill ")
        return {
            "group_memory_bytes": parse_count(used or b""),
            "group_memory_limit_bytes": finite_limit(parse_count(self._limit.read() or b""))
            if self._limit
            else None,
            "group_memory_file_bytes": held.get(b"total_cache ", held.get(b"file ")),
            "group_read_again_bytes": None if again is None else again * self._page,
            "group_out_of_memory_kills": happened.get(b"oom_kill "),
        }

    def close(self) -> None:
        """Close every file."""
        for file in (*(self._quota or ()), *self._memory.values(), self._cpu_stat, self._limit):
            if file is not None:
                file.close()


def _affinity_size(pid: int) -> int | None:
    try:
        return len(os.sched_getaffinity(pid))
    except (AttributeError, OSError):
        return None
