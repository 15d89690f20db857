"""Limits the cost of reading a source by extending its period."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

LIMIT = 0.01  # share of a core that the monitor may take
WINDOW_NS = 2_000_000_000
MOST = 1000.0


_OWN = Path("/proc/thread-self/schedstat")


class ClockReading(NamedTuple):
    """Clocks of this thread, ns: elapsed time, CPU time, and time in the run queue."""

    wall_ns: int
    cpu_ns: int
    queued_ns: int

    @classmethod
    def read_clocks(cls) -> ClockReading:
        """Read the clocks; the run queue counts as 0 if the kernel does not report it."""
        try:
            queued = int(_OWN.read_text().split()[1])
        except (OSError, ValueError, IndexError):
            queued = 0
        return cls(time.perf_counter_ns(), time.thread_time_ns(), queued)

    def blocked_ns(self, since: ClockReading) -> int:
        """Time in which the thread neither ran nor was runnable."""
        wall, cpu, queued = (now - then for now, then in zip(self, since, strict=True))
        return max(0, wall - cpu - queued)


class ReadBudget:
    """Compares the cost of reads with wall time over a window, and extends their period.

    Attributes:
        limit: share of the time that reads may take.
        share: expected share; 0 until it is known.
        stretch: factor of the period, 1 or more.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = limit
        self.share = 0.0
        self._cpu_ns = self._wall_ns = 0
        self.stretch = 1.0

    def start_accounting(self, cpu_ns: int, wall_ns: int) -> None:
        """Start a window; the cost of opening the source is excluded."""
        self._cpu_ns, self._wall_ns = cpu_ns, wall_ns

    def account_reads(self, cpu_ns: int, wall_ns: int, longest_ns: int) -> bool:
        """Update the stretch at the end of a window; returns whether a window ended.

        The cost is inversely proportional to the stretch, so one correction suffices. The stretch
        is reduced slowly, below half the limit. ``cpu_ns`` is the total cost of all reads so far; a
        window contains several of the ``longest_ns`` periods.
        """
        wall = wall_ns - self._wall_ns
        if wall < max(WINDOW_NS, 4 * longest_ns):
            return False
        share, before = (cpu_ns - self._cpu_ns) / wall, self.stretch
        if share > self.limit:
            self.stretch = min(MOST, self.stretch * 1.1 * share / self.limit)
        elif share < self.limit / 2:
            self.stretch = max(1.0, self.stretch * 0.7)
        self.share = share * before / self.stretch
        self.start_accounting(cpu_ns, wall_ns)
        return True
