"""What a step on a CPU pays for finding other things in its core's cache than it left there.

No counter of the processor is read, so this is a bound: every line of the core's own cache has to
come back, one after the other.
"""

from __future__ import annotations

LINES = 16384
"""of 64 bytes: 1 MiB, the second level of current servers' cores"""
FROM_MEMORY_S = 100e-9
"""one line from memory, where all levels of cache were swept"""
FROM_SHARED_S = 20e-9
"""one line from the level that cores share, where only the core's own was lost"""
WAITING = 2 / 3
"""share of a step that may be such waiting: right after a collection of 190 ms a step of 1.0 ms
took 2.1 ms, one of 7.1 ms 8.5 ms (PyTorch 2.13, two virtual cores with 1 MiB each)"""


def at_most_s(line_s: float, swept_s: float, rest_s: float) -> float:
    """How much longer a step takes at most, s.

    Args:
        line_s: what one line costs to bring back, s.
        swept_s: how long the cache was used by something else, s: it displaces no more lines than
            it brings in itself.
        rest_s: what the step takes then, s: at most ``WAITING`` of it is for the cache.
    """
    return min(LINES * line_s, swept_s, WAITING * rest_s)
