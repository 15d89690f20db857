"""Whether a look found the interpreter's lock taken, as the kernel tells: however short the wait.

A look's thread lets go of its core once to sleep until it is due, and again only where it has to
wait for the lock. So how often it did tells for certain whether Python ran at that moment, and
moments are random: the share of such looks is the share of Python. How long one waited tells how
long that stretch of Python still was, unless the job took the lock back before the look was woken.

Each operator is called by some Python of the framework, which nobody can do less often but with the
operator. It is told from the job's own by how long it keeps the lock (``OWN_US``), at each line
where the lock is let go of: what runs before one line takes about as long each time, and of a
stretch that is longer than twice that, most looks wait longer.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.importers._asleep import HALF
from whyidle.importers._lock import FEWEST, TAKEN, engine

Mask = NDArray[np.bool_]

HELD_BITS: Final = 28
"""of a sample's wait, us; above them stands how often the look's thread let go of its core, 0 where
the kernel does not tell (``whyidle.probe.sampler``)"""
OWN_US: Final = 80
"""looks at Python of the framework's own wait less: in jobs of nothing but small operators half of
those that found the lock taken waited 31 us longer than for a free one, one in eight 80 us (102
looks at calls of a perceptron), and one in twelve (193 looks at a categorical distribution, which
checks what it is given); PyTorch 2.13, Python 3.11, two virtual cores"""


def plain(samples: NDArray[Any]) -> tuple[NDArray[Any], Mask | None]:
    """Samples as the probe wrote them -> the same with waits in us, and which of them found the
    lock taken; None where the kernel did not tell."""
    sleeps = samples["held"] >> HELD_BITS
    samples = samples.copy()
    samples["held"] &= (1 << HELD_BITS) - 1
    return samples, sleeps > 1 if sleeps.any() else None


def waited(samples: NDArray[Any], locked: Mask) -> NDArray[Any]:
    """The same looks with how long they waited for the lock, and dated when they asked for it: a
    thread also takes a while to wake up, which looks at a free lock tell."""
    usual = int(np.median(samples["held"][~locked])) if not locked.all() else 0
    held = samples["held"].astype(np.int64)
    told = np.where(locked, np.maximum(held - usual, 1), 0)
    moved = samples.copy()
    moved["time"] += (held - told) * 1000
    moved["held"] = told
    return moved


def own_python(samples: NDArray[Any], locked: Mask, leaf: list[str], inside: Mask) -> Mask:
    """Which looks found Python running that is the job's own.

    Those that waited for ``OWN_US``, and, where most looks that found the lock taken at a line did,
    the others at that line as well: they came near the stretch's end. Of these none counts where
    looks at the backward pass, which leaves the lock free, tell that another thread has it.

    Args:
        samples: see ``waited``.
        locked: looks that found the lock taken.
        leaf: what each stack ends in.
        inside: looks that were due inside a recorded call.
    """
    long = locked & (samples["held"] >= OWN_US)
    stack = samples["stack"].astype(np.int64)
    backward = engine(leaf)[stack] & inside
    if backward.sum() >= FEWEST and float(long[backward].mean()) >= TAKEN:
        return long
    numbers = {text: number for number, text in enumerate(dict.fromkeys(leaf))}
    line = np.array([numbers[text] for text in leaf], dtype=np.int64)[stack]
    count = len(numbers)
    every = np.bincount(line[locked & ~inside], minlength=count)
    waits = np.bincount(line[long & ~inside], minlength=count)
    mostly = (waits >= HALF * every) & (every > 0)
    found: Mask = long | (locked & ~inside & mostly[line])
    return found
