"""Waits for the GIL in stack samples: which samples found Python running, and which a thread that
slept while the GIL was taken.

The sampler's thread gives up its core once to sleep, and again only to wait for the GIL. So that
count shows whether Python ran at a random moment, and the length of the wait when the GIL was
released. Each operator is called by some Python of the framework, which comes last in every period
of Python: a wait up to ``FRAMEWORK_US`` found the framework, a longer one the job's own Python.

A thread that runs Python is awake. If it hardly was by the kernel's count, and samples waited for
the GIL, another thread had the GIL, or this one slept with it or ran only at that moment. The sums
decide: sleep beyond the samples in waiting calls with a free GIL is with the GIL taken. Sleeps
shorter than a step are only decided if operators never sleep (``is_asleep_locked``).

The backward pass runs without the GIL: samples in it with a taken GIL and a sleeping thread show
that another thread has it; where most do, it is unknown who ran.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.model.cause import MOSTLY
from whyidle.model.roles import Role, Vocabulary

LONG_WAIT_US: Final = 500
"""a free GIL is never this late: backward samples, which find it free, waited 0.13 ms at the median
and 0.17 ms at the 90th percentile (229 recordings, two virtual cores)"""
FRAMEWORK_US: Final = 60
"""GIL time of the framework's Python before an operator, with the hand-over: in jobs of small
operators only, half of the samples with a taken GIL waited 31 us longer than with a free one, and
one in six 60 us (102 samples in a perceptron, 193 in a categorical distribution with argument
checks; PyTorch 2.13, Python 3.11, two virtual cores). With 16, 24, 32 and 67 % of the time in the
job's own Python, in periods of 0.04 to 0.5 ms, 15, 19, 31 and 56 % of the samples waited as long"""
SWITCH_US: Final = 5000
"""a waiting thread requests the GIL after this time (``sys.getswitchinterval``)"""
FEWEST: Final = 5
"""least samples for a decision"""
TAKEN: Final = 0.1
"""share of backward samples with the GIL taken from which another thread has it: 0 to 0.02 without
such a thread in a dozen jobs of one and two ranks, 0.46 to 0.79 with one"""
SLEPT: Final = 0.4
"""a thread that slept for a larger share of the time until the next sample was waiting"""
Z: Final = 1.645
"""of a two-sided 90 % interval, and of a limit that chance passes once in twenty times"""
MANY: Final = 0.1
"""share of samples in backward passes from which a job does not mostly compile"""


class LeafFrames(NamedTuple):
    """Which innermost lines of stacks call operators, and which run a backward pass."""

    operator: Mask
    backward: Mask

    @classmethod
    def match_lines(cls, vocabulary: Vocabulary, leaf: list[str]) -> LeafFrames:
        """Match the innermost line of each stack with a framework's vocabulary."""
        roles = (Role.OPERATOR_FRAME, Role.ENGINE_FRAME)
        return cls(*(match_role(vocabulary, role, leaf) for role in roles))


class SampledPython(Struct, frozen=True, eq=False):
    """What samples show of Python."""

    python: Mask
    """the job's own Python ran"""
    unsure: Mask
    """Python ran too briefly to separate it from the framework's"""
    after: Mask
    """the stack shows the line at which Python had ended"""

    def take_rows(self, rows: I64) -> SampledPython:
        """Return the same for some of the samples, in this order."""
        return SampledPython(self.python[rows], self.unsure[rows], self.after[rows])

    def with_borrowed_stacks(self, borrowed: Mask) -> SampledPython:
        """Return the same after samples took the stacks of others."""
        return SampledPython(self.python, self.unsure, self.after | borrowed)


def find_taken_lock(samples: NDArray[Any]) -> Mask:
    """Return which samples found the GIL taken: by the count of the sampler's sleeps or, without
    one, by a longer wait than for a free GIL."""
    if samples["sleeps"].any():
        return np.asarray(samples["sleeps"] > 1)
    return np.asarray(samples["waited_us"] >= LONG_WAIT_US)


def subtract_wakeup(samples: NDArray[Any], held: Mask) -> NDArray[Any]:
    """Return the samples with their wait for the GIL without waking up, dated by its begin."""
    free = ~held & is_random(samples)
    usual = int(np.median(samples["waited_us"][free])) if free.any() else 0
    delay = samples["waited_us"]
    waited = np.where(held, np.maximum(delay - usual, 1), 0)
    dated = samples.copy()
    dated["time"] += (delay - waited) * 1000
    dated["waited_us"] = waited
    return dated


def find_python(samples: NDArray[Any], taken: Mask, stacks: list[str]) -> SampledPython:
    """Return what samples of ``subtract_wakeup`` show of Python. A stack shows the line after
    Python ended if the job released the GIL by itself: before ``SWITCH_US``, or at a line where
    other samples find it free."""
    python = taken & (samples["waited_us"] >= FRAMEWORK_US)
    lines = [stack.split(";", 1)[0] for stack in stacks]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(lines))}
    line = np.array([numbers[text] for text in lines], dtype=np.int64)[samples["stack"]]
    releases = np.bincount(line[~taken & is_random(samples)], minlength=len(numbers)) > 0
    after = python & ((samples["waited_us"] < SWITCH_US) | releases[line])
    return SampledPython(python, taken & ~python, after)


def is_random(samples: NDArray[Any]) -> Mask:
    """Return which samples were taken at random moments rather than recorded at a call."""
    random: Mask = (samples["runnable_ns"] >= 0) | bool((samples["runnable_ns"] < 0).all())
    return random


def find_locked_workers(samples: NDArray[Any], frames: LeafFrames) -> Mask:
    """Return which samples of a worker show it asleep with its GIL taken."""
    if len(samples) < FEWEST:
        return np.zeros(len(samples), dtype=bool)
    read = samples["time"] + samples["waited_us"] * 1000
    idle = np.zeros(len(samples), dtype=bool)
    for thread in np.unique(samples["thread"]):
        own = np.flatnonzero((samples["thread"] == thread) & (samples["runnable_ns"] >= 0))
        idle[own] = _share_asleep(samples["runnable_ns"][own], read[own]) > SLEPT
    return find_sleepers(samples, read, frames, samples["waited_us"] >= LONG_WAIT_US, idle)[0]


def find_sleepers(
    samples: NDArray[Any], read: I64, frames: LeafFrames, held: Mask, idle: Mask
) -> tuple[Mask, Mask]:
    """Return which samples (by time, taken when ``read``, ns) show the thread blocked by the GIL,
    and which in a waiting call. ``held`` samples waited for the GIL, ``idle`` ones found a thread
    that was hardly awake until the next one."""
    locked, blocked = np.zeros(len(samples), dtype=bool), idle & ~held
    for thread in np.unique(samples["thread"]):
        own = np.flatnonzero((samples["thread"] == thread) & (samples["runnable_ns"] >= 0))
        stack = samples["stack"][own]
        taken = _share_taken(frames.backward[stack], held[own], idle[own])
        native = frames.operator[stack]
        share = _share_asleep(samples["runnable_ns"][own], read[own])
        asleep_held, sleep = held[own] & idle[own], float(share[idle[own]].sum())
        waiting = float(blocked[own].sum())
        if taken >= TAKEN:
            locked_rows = held[own] & (native | idle[own] | (taken >= MOSTLY))
            blocked[own] &= ~native
        elif asleep_held.sum() >= FEWEST and sleep - waiting >= MOSTLY * asleep_held.sum():
            locked_rows = asleep_held | _mostly_asleep(stack, held[own], asleep_held)
        else:
            continue
        locked[own] = locked_rows
        blocked[own] &= sleep - locked_rows.sum() >= MOSTLY * waiting
    return locked, blocked


def sum_sleep(samples: NDArray[Any], read: I64) -> float:
    """Return how much of the time the threads slept by the kernel's count, in samples."""
    total = 0.0
    for thread in np.unique(samples["thread"]):
        own = np.flatnonzero((samples["thread"] == thread) & (samples["runnable_ns"] >= 0))
        if len(own) > 1:
            runnable = samples["runnable_ns"][own]
            elapsed, ran = float(read[own[-1]] - read[own[0]]), float(runnable[-1] - runnable[0])
            total += len(own) * min(max(1.0 - ran / max(elapsed, 1.0), 0.0), 1.0)
    return total


def is_asleep_locked(slept: float, held: Mask, free: Mask) -> bool:
    """Return whether a thread whose operators never sleep slept (``slept`` samples in sum) while
    samples found the GIL taken (``held``). At most it slept wherever samples found the GIL ``free``
    outside operators, with the counting error (``Z``); half of the held ones must remain."""
    count = float(free.sum())
    explained = count + Z * float(np.sqrt(count * (1.0 - count / max(len(free), 1))))
    return bool(held.sum() >= FEWEST and slept - explained >= MOSTLY * held.sum())


def match_role(vocabulary: Vocabulary, role: Role, texts: list[str]) -> Mask:
    """Return which frames play a role."""
    return np.array([vocabulary.plays(role, text) for text in texts], dtype=bool)


def _share_taken(backward: Mask, held: Mask, idle: Mask) -> float:
    """Share of backward samples for which another thread had the GIL; 0 if uncertain."""
    waited = backward & held
    if backward.sum() < FEWEST or waited.sum() < 2:
        return 0.0
    if backward.mean() < MANY and idle[waited].mean() < MOSTLY / 2:
        return 0.0
    return float(held[backward].mean())


def _share_asleep(runnable: I64, read: I64) -> F64:
    took, ran = np.diff(read), np.diff(runnable)
    share = 1.0 - ran / np.maximum(took, 1)
    return np.append(np.clip(share, 0.0, 1.0), np.zeros(min(len(read), 1)))


def _mostly_asleep(stack: NDArray[Any], held: Mask, asleep: Mask) -> Mask:
    """Samples with a taken GIL at a place where most such samples find the thread asleep."""
    count = int(stack.max()) + 1
    totals = np.maximum(np.bincount(stack[held], minlength=count), 1)
    share = np.bincount(stack[asleep], minlength=count) / totals
    mostly: Mask = held & (share[stack] > MOSTLY)
    return mostly
