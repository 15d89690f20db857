"""Counters of a process and of the thread that reads them, as the kernel keeps them."""

from __future__ import annotations

import contextlib
import os
import resource

Counts = tuple[int, int, int, int, int]


class ProcessCounters:
    """Reads the counters; its files stay open as long as it lives."""

    def __init__(self) -> None:
        self._io = _open_counter("/proc/self/io")
        self._schedule = _open_counter("/proc/thread-self/schedstat")

    def __del__(self) -> None:
        for file in (self._io, self._schedule):
            with contextlib.suppress(OSError):  # not opened
                os.close(file)

    def read_counters(self) -> Counts:
        """Read the process's CPU ns, the thread's wait for a core ns, characters read, bytes read
        from storage, and page faults that read."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        process = int((usage.ru_utime + usage.ru_stime) * 1e9)
        chars = read = delay = 0
        if self._io >= 0:
            fields = os.pread(self._io, 256, 0).split()
            chars, read = int(fields[1]), int(fields[9])
        if self._schedule >= 0:
            delay = int(os.pread(self._schedule, 96, 0).split()[1])
        return process, delay, chars, read, usage.ru_majflt


def _open_counter(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
