"""Decoding of the stack samples that our probe writes (``whyidle.probe.core.sampler``)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.stack_samples import STACK_SAMPLE

SAMPLE = np.dtype(
    [("time", "<i8"), ("cpu", "<i8"), ("thread", "<u8"), ("stack", "<u4"), ("held", "<u4")]
)
HELD_BITS: Final = 28
"""low bits of ``held``: the sampler's delay until it had the GIL, us; above them, how often its
thread gave up its core"""
AWAKE: Final = 1 << 31
"""set in ``held`` if the kernel had the thread as running or runnable"""


def decode_samples(recorded: NDArray[Any], threads: NDArray[np.uint64], base: int) -> NDArray[Any]:
    """Return records of the probe as ``STACK_SAMPLE``; their threads are in sorted ``threads``."""
    rows = np.empty(len(recorded), STACK_SAMPLE)
    rows["time"] = recorded["time"] - base
    rows["runnable_ns"] = recorded["cpu"]
    rows["waited_us"] = recorded["held"] & ((1 << HELD_BITS) - 1)
    rows["thread"] = np.searchsorted(threads, recorded["thread"])
    rows["stack"] = recorded["stack"]
    rows["sleeps"] = (recorded["held"] & (AWAKE - 1)) >> HELD_BITS
    rows["awake"] = recorded["held"] & AWAKE > 0
    return rows
