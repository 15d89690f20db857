"""Stack samples of a watched process as recorded; ``analysis.sampling`` interprets them."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field
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
"""One sample. ``time``: when the sampler requested the interpreter lock, ns since the timeline's
``base_ns``; ``runnable_ns``: how long the thread had been running or runnable (-1: not read, or
the stack was taken at a call); ``waited_us``: how long the sampler waited for the lock;
``thread``: index into ``Timeline.threads``; ``stack``: index into ``StackSamples.stacks``;
``sleeps``: voluntary context switches of the sampler meanwhile, one for its period and more only
for the lock (0: not counted by the kernel); ``awake``: the kernel saw the thread as runnable."""


class StackSamples(Struct, frozen=True, eq=False):
    """The samples of one process: ``rows`` of ``STACK_SAMPLE`` in recording order, and stacks as
    text, innermost frame first: ``file(line): function;...``."""

    rows: NDArray[Any] = field(default_factory=lambda: np.empty(0, STACK_SAMPLE))
    stacks: tuple[str, ...] = ()
