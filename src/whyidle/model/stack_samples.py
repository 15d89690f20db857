"""Stack samples of a watched process as its sampler recorded them, before anything is concluded.

``analysis.sampling`` concludes from them what the process did between the recorded calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

STACK_SAMPLE = np.dtype(
    [
        ("time", "<i8"),
        ("runnable_ns", "<i8"),
        ("waited_us", "<i8"),
        ("thread", "<i4"),
        ("stack", "<i4"),
        ("sleeps", "u1"),
        ("awake", "?"),
    ]
)
"""One sample. ``time``: when the sampler asked for the interpreter's lock, ns since the timeline's
``base_ns``; ``runnable_ns``: for how long the thread had run or been runnable (-1: not read, or the
stack was noted at a call and not at random); ``waited_us``: how late the sampler had the lock;
``thread``: index into ``Timeline.threads``; ``stack``: index into ``StackSamples.stacks``;
``sleeps``: how often the sampler's thread gave up its core meanwhile, once to wait for its moment
and again only to wait for the lock (0: the kernel does not count it); ``awake``: the kernel had the
thread as running or runnable."""


@dataclass(frozen=True, slots=True, eq=False)
class StackSamples:
    """The samples of one process: ``rows`` as ``STACK_SAMPLE`` in the order of recording, and the
    texts of their stacks, innermost frame first: ``file(line): function;...``."""

    rows: NDArray[Any] = field(default_factory=lambda: np.empty(0, STACK_SAMPLE))
    stacks: tuple[str, ...] = ()
