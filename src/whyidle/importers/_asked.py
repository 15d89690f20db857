"""Whether a look found the interpreter's lock taken, as the kernel tells: however short the wait.

A look's thread lets go of its core once to sleep until it is due, and again only where it has to
wait for the lock. So how often it did tells for certain whether Python ran at that moment, and
moments are random: the share of such looks is the share of Python. How long one waited tells how
long it took until the lock was let go of.

Each operator is called by some Python of the framework, which nobody can do less often but with the
operator. It comes last in every stretch of Python, so a look that waits no longer than that takes
(``OWN_US``) found the framework, and the others the job's own Python before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

HELD_BITS: Final = 28
"""of a sample's wait, us; above them stands how often the look's thread let go of its core, 0 where
the kernel does not tell (``whyidle.probe.core.sampler``)"""
AWAKE: Final = 1 << 31
"""set where the kernel told that the thread was awake; else it slept, or was not asked about"""
OWN_US: Final = 60
"""what the framework's Python keeps the lock for on the way to an operator, and handing the lock
over takes: in jobs of nothing but small operators, of the looks that found it taken half waited 31
us longer than for a free one, and one in six 60 us (102 looks at calls of a perceptron, 193 at a
categorical distribution, which checks what it is given; PyTorch 2.13, Python 3.11, two virtual
cores). Where the job's own Python took 16, 24, 32 and 67 % of the time, in stretches of 0.04 to 0.5
ms, 15, 19, 31 and 56 % of the looks waited as long"""
SWITCH_US: Final = 5000
"""after so long whoever waits for the lock asks for it (``sys.getswitchinterval``)"""


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """What looks tell of Python. ``python``: it ran, and was the job's own. ``unsure``: it ran for
    too short a time to tell it from the framework's. ``after``: the stack shows the line at which
    it was over. The last two are None where the kernel does not tell."""

    python: Mask
    unsure: Mask | None = None
    after: Mask | None = None

    def take(self, rows: NDArray[np.int64]) -> Ran:
        """The same for some of the looks, in this order."""
        unsure = None if self.unsure is None else self.unsure[rows]
        return Ran(self.python[rows], unsure, None if self.after is None else self.after[rows])

    def borrowing(self, others: Mask) -> Ran:
        """The same where some looks were given the stacks of others: none of these was seen."""
        return Ran(self.python, self.unsure, None if self.after is None else self.after | others)


def plain(samples: NDArray[Any]) -> tuple[NDArray[Any], Mask | None]:
    """Samples as the probe wrote them -> the same with waits in us, and which of them found the
    lock taken; None where the kernel did not tell. A column more, ``awake``, tells which found the
    thread surely so."""
    told = np.empty(len(samples), [*samples.dtype.descr, ("awake", "?")])
    for column in samples.dtype.names or ():
        told[column] = samples[column]
    told["awake"] = samples["held"] & AWAKE > 0
    sleeps = (samples["held"] & (AWAKE - 1)) >> HELD_BITS
    told["held"] &= (1 << HELD_BITS) - 1
    return told, sleeps > 1 if sleeps.any() else None


def waited(samples: NDArray[Any], locked: Mask) -> NDArray[Any]:
    """The same looks with how long they waited for the lock, and dated when they asked for it: a
    thread also takes a while to wake up, which looks at a free lock tell."""
    free = ~locked & _random(samples)
    usual = int(np.median(samples["held"][free])) if free.any() else 0
    held = samples["held"].astype(np.int64)
    told = np.where(locked, np.maximum(held - usual, 1), 0)
    moved = samples.copy()
    moved["time"] += (held - told) * 1000
    moved["held"] = told
    return moved


def ran(samples: NDArray[Any], locked: Mask, stacks: list[str]) -> Ran:
    """What looks found of Python.

    A stack shows the line at which it was over where the job let go of the lock by itself: it was
    not asked to before ``SWITCH_US``, or does so at that line, as other looks found it free there.

    Args:
        samples: see ``waited``.
        locked: looks that found the lock taken.
        stacks: as text, innermost line first.
    """
    python = locked & (samples["held"] >= OWN_US)
    leaf = [stack.split(";", 1)[0] for stack in stacks]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(leaf))}
    line = np.array([numbers[text] for text in leaf], dtype=np.int64)[samples["stack"]]
    frees = np.bincount(line[~locked & _random(samples)], minlength=len(numbers)) > 0
    return Ran(python, locked & ~python, python & ((samples["held"] < SWITCH_US) | frees[line]))


def _random(samples: NDArray[Any]) -> Mask:
    """Looks that were had at random, not noted at a call."""
    found: Mask = (samples["cpu"] >= 0) | bool((samples["cpu"] < 0).all())
    return found
