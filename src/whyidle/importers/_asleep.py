"""Looks at a thread that slept although the interpreter's lock was taken.

A thread that runs Python is awake. Between two looks the kernel tells how long the thread was. Of
the looks that found it hardly ever awake, some had to wait for the lock: then either it ran Python
at that moment and slept at others, or somebody else had the lock, or the thread held it in native
code and slept there. The sum decides: a thread must be found in a call that waits, the lock free,
as often as it sleeps. Sleep that is found nowhere else is where the lock was taken, which is
neither Python of the lines that these looks show, nor a call that waits.

Where sleeps are shorter than a step, each such interval holds some, and every look of it seems to
be at a sleeper. Then the sum over the run decides, if operators themselves never sleep
(``slept_locked``).

And the backward pass runs outside the lock: where looks at it find the lock taken and the thread
asleep, another thread has it, and keeps it from operators that ask for it again. Where that is so
at most looks, of none can it be told who ran.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.importers._lock import FEWEST, HELD_US, TAKEN, engine
from whyidle.model.frames import TORCH

Mask = NDArray[np.bool_]
F64 = NDArray[np.float64]

HALF: Final = 0.5
"""looks are what at least this part of them must be"""
SLEPT: Final = 0.4
"""a thread that slept for more than this share of the time until the next look was waiting"""
Z: Final = 1.645
"""of a limit that is passed by chance once in twenty times"""
MANY: Final = 0.1
"""share of all looks that are at a backward pass, where the job does not mostly compile"""
_OPERATOR = re.compile(rf"{TORCH}(?!_dynamo|_inductor|_functorch|_guards|fx/|utils/data/)")


def asleep_locked(samples: NDArray[Any], leaf: list[str]) -> Mask:
    """Which looks at one process, as the probe wrote them, show it asleep while its lock was taken:
    held still as a whole, or kept waiting by a thread of its own."""
    if len(samples) < FEWEST:
        return np.zeros(len(samples), dtype=bool)
    read = samples["time"].astype(np.int64) + samples["held"].astype(np.int64) * 1000
    idle = np.zeros(len(samples), dtype=bool)
    for thread in np.unique(samples["thread"]):
        mine = np.flatnonzero((samples["thread"] == thread) & (samples["cpu"] >= 0))
        idle[mine] = _slept(samples["cpu"][mine].astype(np.int64), read[mine]) > SLEPT
    return asleep(samples, read, leaf, samples["held"] >= HELD_US, idle)[0]


def asleep(
    samples: NDArray[Any], read: NDArray[np.int64], leaf: list[str], held: Mask, idle: Mask
) -> tuple[Mask, Mask]:
    """Which looks show the thread kept from running by the lock, and which in a call that waits.

    Args:
        samples: as the probe wrote them, by time.
        read: when each look was had, ns.
        leaf: what each stack ends in.
        held: looks that had to wait for the lock.
        idle: looks at a thread that was hardly ever awake until the next one.
    """
    locked, blocked = np.zeros(len(samples), dtype=bool), idle & ~held
    for thread in np.unique(samples["thread"]):
        mine = np.flatnonzero((samples["thread"] == thread) & (samples["cpu"] >= 0))
        stack = samples["stack"][mine]
        taken = _taken(leaf, stack, held[mine], idle[mine])
        native = _are(leaf, _OPERATOR)[stack]
        share = _slept(samples["cpu"][mine].astype(np.int64), read[mine])
        both, slept = held[mine] & idle[mine], float(share[idle[mine]].sum())
        elsewhere = float(blocked[mine].sum())
        if taken >= TAKEN:
            found = held[mine] & (native | idle[mine] | (taken >= HALF))
            blocked[mine] &= ~native
        elif both.sum() >= FEWEST and slept - elsewhere >= HALF * both.sum():
            found = both | _alike(stack, held[mine], both)
        else:
            continue
        locked[mine] = found
        blocked[mine] &= slept - found.sum() >= HALF * elsewhere
    return locked, blocked


def sum_slept(samples: NDArray[Any], read: NDArray[np.int64]) -> float:
    """For how much of the time the threads slept, in looks: as the kernel counts it."""
    found = 0.0
    for thread in np.unique(samples["thread"]):
        mine = np.flatnonzero((samples["thread"] == thread) & (samples["cpu"] >= 0))
        if len(mine) > 1:
            took = float(read[mine[-1]] - read[mine[0]])
            ran = float(int(samples["cpu"][mine[-1]]) - int(samples["cpu"][mine[0]]))
            found += len(mine) * min(max(1.0 - ran / max(took, 1.0), 0.0), 1.0)
    return found


def slept_locked(slept: float, held: Mask, free: Mask) -> bool:
    """Whether a thread whose operators never sleep did so where looks found the lock taken.

    The kernel's sum is exact, however short each sleep is. At most it slept wherever looks found
    the lock free outside operators, with the error that counting them has (``Z``); what is left of
    the sum must be at least half of the looks that found the lock taken.

    Args:
        slept: see ``sum_slept``.
        held: looks that found the lock taken.
        free: looks outside operators that found it free.
    """
    count = float(free.sum())
    most = count + Z * float(np.sqrt(count * (1.0 - count / max(len(free), 1))))
    return bool(held.sum() >= FEWEST and slept - most >= HALF * held.sum())


def operator(leaf: list[str]) -> Mask:
    """Which innermost lines of Python are the framework's, which run its operators."""
    return _are(leaf, _OPERATOR)


def _taken(leaf: list[str], stack: NDArray[Any], held: Mask, idle: Mask) -> float:
    """The share of the looks at a backward pass for which another thread had the lock; 0 where
    they are few, or a few among many at which the thread was awake: so it is where a compiler runs
    in a backward pass."""
    backward = engine(leaf)[stack]
    waited = backward & held
    if backward.sum() < FEWEST or waited.sum() < 2:
        return 0.0
    if backward.mean() < MANY and idle[waited].mean() < HALF / 2:
        return 0.0
    return float(held[backward].mean())


def _are(leaf: list[str], pattern: re.Pattern[str]) -> Mask:
    return np.array([bool(pattern.search(text)) for text in leaf], dtype=bool)


def _slept(awake: NDArray[np.int64], read: NDArray[np.int64]) -> F64:
    """The part of the time until the next look that the thread slept (0-1)."""
    took, ran = np.diff(read), np.diff(awake)
    share = 1.0 - ran / np.maximum(took, 1)
    return np.append(np.clip(share, 0.0, 1.0), np.zeros(min(len(read), 1)))


def _alike(stack: NDArray[Any], held: Mask, both: Mask) -> Mask:
    """Looks at a taken lock, at a place where most such looks find the thread asleep: that it ran
    later, until the next look, does not make this one different."""
    every = int(stack.max()) + 1
    of_all = np.maximum(np.bincount(stack[held], minlength=every), 1)
    share = np.bincount(stack[both], minlength=every) / of_all
    mostly: Mask = held & (share[stack] > HALF)
    return mostly
