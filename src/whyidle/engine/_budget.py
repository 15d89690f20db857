"""How much slower a monitor must go to stay within its share of a core."""

from __future__ import annotations

LIMIT = 0.01
"""a watcher that takes more than a hundredth of a core disturbs what it watches"""
WINDOW_NS = 2_000_000_000
MOST = 1000.0


class Budget:
    """Compares CPU time with wall time over a window, and stretches the periods between reads.

    Attributes:
        stretch: what periods are to be multiplied by, 1 or more.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self._limit = limit
        self._cpu_ns = self._wall_ns = 0
        self.stretch = 1.0

    def begin(self, cpu_ns: int, wall_ns: int) -> None:
        """From here on time counts; what opening the sources cost does not come again."""
        self._cpu_ns, self._wall_ns = cpu_ns, wall_ns

    def note(self, cpu_ns: int, wall_ns: int, longest_ns: int) -> bool:
        """Look at the clocks; True at the end of a window, which holds a few reads of the source
        whose (stretched) period is ``longest_ns``.

        CPU use falls as one over the stretch, so one correction is enough; easing is slower, and
        begins at half of what is allowed.
        """
        wall = wall_ns - self._wall_ns
        if wall < max(WINDOW_NS, 4 * longest_ns):
            return False
        share = (cpu_ns - self._cpu_ns) / wall
        if share > self._limit:
            self.stretch = min(MOST, self.stretch * 1.1 * share / self._limit)
        elif share < self._limit / 2:
            self.stretch = max(1.0, self.stretch * 0.7)
        self.begin(cpu_ns, wall_ns)
        return True
