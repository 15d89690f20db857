"""All processes of an arm, seen from outside: what they hold in memory and read from disk."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import psutil

EVERY_S, LIST_S = 0.1, 1.0
"""time between samples, and between looks for new processes, which cost more"""
MOST = 0.01
"""of a core, what looking may take: of many processes there are fewer samples"""


class Sample(NamedTuple):
    """At a time of the clock that all processes share (ns): bytes of memory that are a process's
    own (neither files nor shared memory), of all of them; bytes that were fetched from storage so
    far, not from memory."""

    time_ns: int
    own: int
    fetched: int


class Tree:
    """The processes that one has started, and those that these have."""

    def __init__(self, pid: int) -> None:
        self.samples: list[Sample] = []
        self._pid = pid
        self._listed = -LIST_S
        self._due = 0.0
        self._each: list[psutil.Process] = []
        self._fetched: dict[psutil.Process, int] = {}

    def look(self) -> None:
        """Take a sample, where it is time for one."""
        now = time.monotonic()
        if now < self._due:
            return
        cpu = time.thread_time()
        if now - self._listed >= LIST_S:
            self._listed = now
            with suppress(psutil.Error, OSError):
                root = psutil.Process(self._pid)
                self._each = [root, *root.children(recursive=True)]
        own = sum(map(self._own, self._each))
        self.samples.append(Sample(time.perf_counter_ns(), own, sum(self._fetched.values())))
        self._due = now + max(EVERY_S, (time.thread_time() - cpu) / MOST)

    def _own(self, process: psutil.Process) -> int:
        """What a process holds by itself; what it has fetched is noted, for it may be gone soon."""
        try:
            told = process.memory_info()
            with suppress(psutil.Error, OSError, AttributeError):  # not told by every system
                self._fetched[process] = process.io_counters().read_bytes
        except (psutil.Error, OSError):
            return 0
        return int(told.rss - getattr(told, "shared", 0))


def fetched_bytes(samples: Sequence[Sample], begin_ns: int, end_ns: int) -> int:
    """What was fetched from storage between two moments."""
    if not samples:
        return 0
    times = [sample.time_ns for sample in samples]
    first = samples[max(bisect_left(times, begin_ns) - 1, 0)]
    last = samples[min(bisect_left(times, end_ns), len(samples) - 1)]
    return last.fetched - first.fetched
