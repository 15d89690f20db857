"""How much slower a source must be read to stay within its share of a core."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

LIMIT = 0.01
"""a watcher that takes more than a hundredth of a core disturbs what it watches"""
WINDOW_NS = 2_000_000_000
MOST = 1000.0


_OWN = Path("/proc/thread-self/schedstat")


class ClockReading(NamedTuple):
    """What has passed for this thread, ns: time, time on a core, and time waiting for one."""

    wall_ns: int
    cpu_ns: int
    queued_ns: int

    @classmethod
    def read_clocks(cls) -> ClockReading:
        """Read them; where the kernel does not tell, no thread waits for a core."""
        try:
            queued = int(_OWN.read_text().split()[1])
        except (OSError, ValueError, IndexError):
            queued = 0
        return cls(time.perf_counter_ns(), time.thread_time_ns(), queued)

    def blocked_ns(self, since: ClockReading) -> int:
        """For how long the thread neither ran nor wanted to."""
        wall, cpu, queued = (now - then for now, then in zip(self, since, strict=True))
        return max(0, wall - cpu - queued)


class ReadBudget:
    """Compares what reads take with wall time over a window, and stretches the periods between
    them.

    Attributes:
        limit: share of the time that reads may take.
        share: what they are expected to take by now; 0 as long as that is not known.
        stretch: what periods are to be multiplied by, 1 or more.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = limit
        self.share = 0.0
        self._cpu_ns = self._wall_ns = 0
        self.stretch = 1.0

    def start_accounting(self, cpu_ns: int, wall_ns: int) -> None:
        """From here on time counts; what opening the source cost does not come again."""
        self._cpu_ns, self._wall_ns = cpu_ns, wall_ns

    def account_reads(self, cpu_ns: int, wall_ns: int, longest_ns: int) -> bool:
        """Look at the clocks; True at the end of a window, which holds a few reads of a source
        whose (stretched) period is ``longest_ns``. ``cpu_ns`` is what all its reads have taken.

        CPU use falls as one over the stretch, so one correction is enough; easing is slower, and
        begins at half of what is allowed.
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
