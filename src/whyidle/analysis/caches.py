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
"""one line from the level that cores share"""


def at_most_s(line_s: float, swept_s: float, rest_s: float) -> float:
    """How much longer a step takes at most, s.

    Args:
        line_s: what one line costs to bring back, s.
        swept_s: how long the cache was used by something else, s: it displaces no more lines than
            it brings in itself.
        rest_s: the step without that, s: at most half of it is such waiting.
    """
    return min(LINES * line_s, swept_s, rest_s / 2)
