"""Samples memory, disk reads and CPU time of all processes of an arm from outside."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import psutil

from whyidle.model.live.telemetry import OWN_SHARE

EVERY_S, COUNT_S, LIST_S = 0.1, 0.5, 1.0
"""intervals of samples, of samples with CPU time, and of searches for new processes"""
_SPENT = ("user", "nice", "system", "irq", "softirq", "steal")


class TreeSample(NamedTuple):
    """One sample over all processes."""

    time_ns: int
    own: int  # private memory, without files and shared memory, bytes
    fetched: int  # bytes read from storage so far
    cpu_s: float = 0.0  # CPU time of the processes so far; 0 if not sampled
    machine_s: float = 0.0  # CPU time of the whole machine so far; 0 if not sampled


class ProcessTree:
    """A process and its descendants."""

    def __init__(self, pid: int) -> None:
        self.samples: list[TreeSample] = []
        self._pid = pid
        self._listed, self._counted = -LIST_S, -COUNT_S
        self._due = 0.0
        self._each: list[psutil.Process] = []
        self._fetched: dict[psutil.Process, int] = {}
        self._used: dict[psutil.Process, tuple[float, float]] = {}
        """CPU time of the process, and of children that it has waited for"""

    def take_sample(self) -> None:
        """Take a sample if one is due."""
        now = time.monotonic()
        if now < self._due:
            return
        cpu = time.thread_time()
        if now - self._listed >= LIST_S:
            self._listed = now
            with suppress(psutil.Error, OSError):
                root = psutil.Process(self._pid)
                self._each = [root, *root.children(recursive=True)]
        own = sum(map(self._own_memory, self._each))
        fetched, used = sum(self._fetched.values()), (0.0, 0.0)
        if now - self._counted >= COUNT_S:
            self._counted = now
            used = self._cpu_time(), _machine_s()
        self.samples.append(TreeSample(time.perf_counter_ns(), own, fetched, *used))
        self._due = now + max(EVERY_S, (time.thread_time() - cpu) / OWN_SHARE)

    def _own_memory(self, process: psutil.Process) -> int:
        """Private memory of a process; also records its disk reads, since it may exit soon."""
        try:
            memory = process.memory_info()
            with suppress(psutil.Error, OSError, AttributeError):  # not on every system
                self._fetched[process] = process.io_counters().read_bytes
        except (psutil.Error, OSError):
            return 0
        return int(memory.rss - getattr(memory, "shared", 0))

    def _cpu_time(self) -> float:
        """CPU time of all processes, including ended ones. Short-lived processes, such as
        compilers, count once their parent has waited for them."""
        for process in self._each:
            with suppress(psutil.Error, OSError):
                times = process.cpu_times()
                waited = (
                    getattr(times, "children_user", 0.0),
                    getattr(times, "children_system", 0.0),
                )
                self._used[process] = times.user + times.system, sum(waited)
        gone = self._used.keys() - set(self._each)
        known = sum(sum(self._used[process]) for process in gone)
        waited_for = sum(waited for _, waited in self._used.values())
        return sum(own for own, _ in self._used.values()) + max(waited_for - known, 0.0)


def _machine_s() -> float:
    """CPU time used on all cores so far, including stolen time; 0 if unknown."""
    try:
        times = psutil.cpu_times()
    except (psutil.Error, OSError):
        return 0.0
    return float(sum(getattr(times, name, 0.0) for name in _SPENT))


def fetched_bytes(samples: Sequence[TreeSample], begin_ns: int, end_ns: int) -> int:
    """Bytes read from storage between two moments."""
    if not samples:
        return 0
    first, last = _samples_around(samples, begin_ns, end_ns)
    return last.fetched - first.fetched


def others_cores(samples: Sequence[TreeSample], begin_ns: int, end_ns: int) -> float | None:
    """Cores that programs other than the job used on average; None if unknown."""
    counted = [sample for sample in samples if sample.machine_s]
    if not counted:
        return None
    first, last = _samples_around(counted, begin_ns, end_ns)
    passed_s = (last.time_ns - first.time_ns) / 1e9
    whole_s = last.machine_s - first.machine_s
    if passed_s <= 0.0 or whole_s <= 0.0:
        return None
    return max(whole_s - (last.cpu_s - first.cpu_s), 0.0) / passed_s


def _samples_around(
    samples: Sequence[TreeSample], begin_ns: int, end_ns: int
) -> tuple[TreeSample, TreeSample]:
    times = [sample.time_ns for sample in samples]
    first = samples[max(bisect_left(times, begin_ns) - 1, 0)]
    return first, samples[min(bisect_left(times, end_ns), len(samples) - 1)]
