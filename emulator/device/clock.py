"""The one clock of the emulated device, and the two ways of letting it go by."""

from __future__ import annotations

import time

now = time.perf_counter_ns
"""nanoseconds; on Linux the same in every process of a machine"""


def sleep_until(moment: int) -> None:
    """Let others use the processor until then: a host that waits for a device costs nothing."""
    while (left := moment - now()) > 0:
        time.sleep(left / 1e9)


def spin_until(moment: int) -> None:
    """Use the processor until then: a host that launches work does."""
    while now() < moment:
        pass
