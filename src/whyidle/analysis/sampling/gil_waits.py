"""Waits for the interpreter's lock: which samples found Python running, and which a thread that
slept although the lock was taken.

The sampler's thread gives up its core once to sleep until it is due, and again only where it has to
wait for the lock. So how often it did tells for certain whether Python ran at that moment, and
moments are random: the share of such samples is the share of Python. How long one waited tells how
long it took until the lock was released.

Each operator is called by some Python of the framework, which nobody can do less often but with the
operator. It comes last in every stretch of Python, so a sample that waits no longer than that takes
(``FRAMEWORK_US``) found the framework, and the others the job's own Python before it.

A thread that runs Python is awake. Between two samples the kernel tells how long the thread was. Of
the samples that found it hardly ever awake, some had to wait for the lock: then either it ran
Python at that moment and slept at others, or somebody else had the lock, or the thread held it in
native code and slept there. The sum decides: a thread must be found in a call that waits, the lock
free, as often as it sleeps. Sleep that is found nowhere else is where the lock was taken, which is
neither Python of the lines that these samples show, nor a call that waits.

Where sleeps are shorter than a step, each such interval holds some, and every sample of it seems to
be at a sleeper. Then the sum over the run decides, if operators themselves never sleep
(``is_asleep_locked``).

And the backward pass runs outside the lock: where samples at it find the lock taken and the thread
asleep, another thread has it, and keeps it from operators that ask for it again. Where that is so
at most samples, of none can it be told who ran.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.frames import TORCH

Mask = NDArray[np.bool_]
F64 = NDArray[np.float64]

LONG_WAIT_US: Final = 500
"""no free lock takes so long: in 229 recordings, all of one machine of two virtual cores, samples
at a backward pass, which leaves the lock free, waited 0.13 ms (median of their medians), nine of
ten 0.17 ms"""
FRAMEWORK_US: Final = 60
"""what the framework's Python keeps the lock for on the way to an operator, and handing the lock
over takes: in jobs of nothing but small operators, of the samples that found it taken half waited
31 us longer than for a free one, and one in six 60 us (102 samples at calls of a perceptron, 193 at
a categorical distribution, which checks what it is given; PyTorch 2.13, Python 3.11, two virtual
cores). Where the job's own Python took 16, 24, 32 and 67 % of the time, in stretches of 0.04 to 0.5
ms, 15, 19, 31 and 56 % of the samples waited as long"""
SWITCH_US: Final = 5000
"""after so long whoever waits for the lock asks for it (``sys.getswitchinterval``)"""
FEWEST: Final = 5
"""samples that tell something"""
TAKEN: Final = 0.1
"""share of the samples at a backward pass with the lock taken, from which on another thread has it:
0 to 0.02 where none does, in a dozen jobs, alone and of two ranks; 0.46 to 0.79 where one does"""
HALF: Final = 0.5
"""samples are what at least this part of them must be"""
SLEPT: Final = 0.4
"""a thread that slept for more than this share of the time until the next sample was waiting"""
Z: Final = 1.645
"""of a limit that is passed by chance once in twenty times"""
MANY: Final = 0.1
"""share of all samples that are at a backward pass, where the job does not mostly compile"""
_OPERATOR = re.compile(rf"{TORCH}(?!_dynamo|_inductor|_functorch|_guards|fx/|utils/data/)")
_BACKWARD = re.compile(
    r"/torch/autograd/(graph\.py\(\d+\): _engine_run_backward|__init__\.py\(\d+\): backward)$"
)


@dataclass(frozen=True, slots=True, eq=False)
class SampledPython:
    """What samples tell of Python. ``python``: it ran, and was the job's own. ``unsure``: it ran
    for too short a time to tell it from the framework's. ``after``: the stack shows the line at
    which it was over."""

    python: Mask
    unsure: Mask
    after: Mask

    def take_rows(self, rows: NDArray[np.int64]) -> SampledPython:
        """The same for some of the samples, in this order."""
        return SampledPython(self.python[rows], self.unsure[rows], self.after[rows])

    def with_borrowed_stacks(self, borrowed: Mask) -> SampledPython:
        """The same where some samples were given the stacks of others: none of these was seen."""
        return SampledPython(self.python, self.unsure, self.after | borrowed)


def find_taken_lock(samples: NDArray[Any]) -> Mask:
    """Which samples found the lock taken. Where the kernel does not count how often a thread gives
    up its core (it does on Linux), only those that waited longer than a free lock ever takes."""
    if samples["sleeps"].any():
        return np.asarray(samples["sleeps"] > 1)
    return np.asarray(samples["waited_us"] >= LONG_WAIT_US)


def subtract_wakeup(samples: NDArray[Any], taken: Mask) -> NDArray[Any]:
    """The same samples with how long they waited for the lock, and dated when they asked for it: a
    thread also takes a while to wake up, which samples at a free lock tell."""
    free = ~taken & is_random(samples)
    usual = int(np.median(samples["waited_us"][free])) if free.any() else 0
    late = samples["waited_us"]
    waited = np.where(taken, np.maximum(late - usual, 1), 0)
    moved = samples.copy()
    moved["time"] += (late - waited) * 1000
    moved["waited_us"] = waited
    return moved


def find_python(samples: NDArray[Any], taken: Mask, stacks: list[str]) -> SampledPython:
    """What samples found of Python.

    A stack shows the line at which it was over where the job let go of the lock by itself: it was
    not asked to before ``SWITCH_US``, or does so at that line, as other samples found it free
    there.

    Args:
        samples: as ``subtract_wakeup`` returns them.
        taken: samples that found the lock taken.
        stacks: as text, innermost line first.
    """
    python = taken & (samples["waited_us"] >= FRAMEWORK_US)
    leaf = [stack.split(";", 1)[0] for stack in stacks]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(leaf))}
    line = np.array([numbers[text] for text in leaf], dtype=np.int64)[samples["stack"]]
    frees = np.bincount(line[~taken & is_random(samples)], minlength=len(numbers)) > 0
    after = python & ((samples["waited_us"] < SWITCH_US) | frees[line])
    return SampledPython(python, taken & ~python, after)


def is_random(samples: NDArray[Any]) -> Mask:
    """Which samples were taken at random moments, not noted at a call."""
    found: Mask = (samples["runnable_ns"] >= 0) | bool((samples["runnable_ns"] < 0).all())
    return found


def find_locked_workers(samples: NDArray[Any], leaf: list[str]) -> Mask:
    """Which samples of one process, as the probe wrote them, show it asleep while its lock was
    taken: held still as a whole, or kept waiting by a thread of its own."""
    if len(samples) < FEWEST:
        return np.zeros(len(samples), dtype=bool)
    read = samples["time"] + samples["waited_us"] * 1000
    idle = np.zeros(len(samples), dtype=bool)
    for thread in np.unique(samples["thread"]):
        mine = np.flatnonzero((samples["thread"] == thread) & (samples["runnable_ns"] >= 0))
        idle[mine] = _share_asleep(samples["runnable_ns"][mine], read[mine]) > SLEPT
    return find_sleepers(samples, read, leaf, samples["waited_us"] >= LONG_WAIT_US, idle)[0]


def find_sleepers(
    samples: NDArray[Any], read: NDArray[np.int64], leaf: list[str], held: Mask, idle: Mask
) -> tuple[Mask, Mask]:
    """Which samples show the thread kept from running by the lock, and which in a call that waits.

    Args:
        samples: as the probe wrote them, by time.
        read: when each sample was taken, ns.
        leaf: what each stack ends in.
        held: samples that had to wait for the lock.
        idle: samples of a thread that was hardly ever awake until the next one.
    """
    locked, blocked = np.zeros(len(samples), dtype=bool), idle & ~held
    for thread in np.unique(samples["thread"]):
        mine = np.flatnonzero((samples["thread"] == thread) & (samples["runnable_ns"] >= 0))
        stack = samples["stack"][mine]
        taken = _share_taken(leaf, stack, held[mine], idle[mine])
        native = match_frames(_OPERATOR, leaf)[stack]
        share = _share_asleep(samples["runnable_ns"][mine], read[mine])
        both, slept = held[mine] & idle[mine], float(share[idle[mine]].sum())
        elsewhere = float(blocked[mine].sum())
        if taken >= TAKEN:
            found = held[mine] & (native | idle[mine] | (taken >= HALF))
            blocked[mine] &= ~native
        elif both.sum() >= FEWEST and slept - elsewhere >= HALF * both.sum():
            found = both | _mostly_asleep(stack, held[mine], both)
        else:
            continue
        locked[mine] = found
        blocked[mine] &= slept - found.sum() >= HALF * elsewhere
    return locked, blocked


def sum_sleep(samples: NDArray[Any], read: NDArray[np.int64]) -> float:
    """For how much of the time the threads slept, in samples: as the kernel counts it."""
    found = 0.0
    for thread in np.unique(samples["thread"]):
        mine = np.flatnonzero((samples["thread"] == thread) & (samples["runnable_ns"] >= 0))
        if len(mine) > 1:
            runnable = samples["runnable_ns"][mine]
            took, ran = float(read[mine[-1]] - read[mine[0]]), float(runnable[-1] - runnable[0])
            found += len(mine) * min(max(1.0 - ran / max(took, 1.0), 0.0), 1.0)
    return found


def is_asleep_locked(slept: float, held: Mask, free: Mask) -> bool:
    """Whether a thread whose operators never sleep did so where samples found the lock taken.

    The kernel's sum is exact, however short each sleep is. At most it slept wherever samples found
    the lock free outside operators, with the error that counting them has (``Z``); what is left of
    the sum must be at least half of the samples that found the lock taken.

    Args:
        slept: see ``sum_sleep``.
        held: samples that found the lock taken.
        free: samples outside operators that found it free.
    """
    count = float(free.sum())
    most = count + Z * float(np.sqrt(count * (1.0 - count / max(len(free), 1))))
    return bool(held.sum() >= FEWEST and slept - most >= HALF * held.sum())


def is_operator(leaf: list[str]) -> Mask:
    """Which innermost lines of Python are the framework's, which run its operators."""
    return match_frames(_OPERATOR, leaf)


def match_frames(pattern: re.Pattern[str], texts: list[str]) -> Mask:
    """Which texts a pattern is found in."""
    return np.array([bool(pattern.search(text)) for text in texts], dtype=bool)


def _share_taken(leaf: list[str], stack: NDArray[Any], held: Mask, idle: Mask) -> float:
    """The share of the samples at a backward pass for which another thread had the lock; 0 where
    they are few, or a few among many at which the thread was awake: so it is where a compiler runs
    in a backward pass."""
    backward = match_frames(_BACKWARD, leaf)[stack]
    waited = backward & held
    if backward.sum() < FEWEST or waited.sum() < 2:
        return 0.0
    if backward.mean() < MANY and idle[waited].mean() < HALF / 2:
        return 0.0
    return float(held[backward].mean())


def _share_asleep(runnable: NDArray[np.int64], read: NDArray[np.int64]) -> F64:
    """The part of the time until the next sample that the thread slept (0-1)."""
    took, ran = np.diff(read), np.diff(runnable)
    share = 1.0 - ran / np.maximum(took, 1)
    return np.append(np.clip(share, 0.0, 1.0), np.zeros(min(len(read), 1)))


def _mostly_asleep(stack: NDArray[Any], held: Mask, both: Mask) -> Mask:
    """Samples of a taken lock, at a place where most such samples find the thread asleep: that it
    ran later, until the next sample, does not make this one different."""
    every = int(stack.max()) + 1
    of_all = np.maximum(np.bincount(stack[held], minlength=every), 1)
    share = np.bincount(stack[both], minlength=every) / of_all
    mostly: Mask = held & (share[stack] > HALF)
    return mostly
