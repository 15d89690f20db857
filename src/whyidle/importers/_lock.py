"""Whether a look at a thread found the interpreter's lock taken: so Python ran at that moment.

A look waits for that lock, for a free one hardly. A backward pass runs outside it, so looks there
tell how long a free one takes on this machine, and how often it takes much longer by chance: where
the machine was late, and nobody had the lock.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

HELD_US: Final = 500
"""Python ran, and no native operator, when the interpreter's lock was not free for this long;
where the recording tells how long a free one takes, less (``taken_us``)"""
FEWEST: Final = 5
"""looks that tell something"""
TAKEN: Final = 0.1
"""share of the looks at a backward pass with the lock taken, from which on another thread has it:
0 to 0.02 where none does, in a dozen jobs, alone and of two ranks; 0.46 to 0.79 where one does"""
LEAST_US: Final = 200
"""no less is told apart from waking up: in 229 recordings, all of one machine of two virtual cores,
looks at a backward pass waited 0.13 ms (median of their medians), nine of ten 0.17 ms"""
USUAL: Final = 0.007
"""share of the looks at a backward pass that waited as if the lock was taken where nobody else has
it: 113 of 16,219 in 136 recordings of one machine of two virtual cores"""
NEAR: Final = 1 / 3
"""the part of these that waited less than twice as long: 38 of the 113"""
CHANCE: Final = 0.01
"""waits at one line count where chance brings as many less often than this: so a hundredth of the
lines that leave the lock free count as Python all the same"""
_ENGINE = re.compile(
    r"/torch/autograd/(graph\.py\(\d+\): _engine_run_backward|__init__\.py\(\d+\): backward)$"
)


def engine(leaf: list[str]) -> Mask:
    """Which innermost lines of Python run a backward pass."""
    return np.array([bool(_ENGINE.search(text)) for text in leaf], dtype=bool)


def taken_us(samples: NDArray[Any], leaf: list[str]) -> float:
    """How long a look waits for a lock that somebody has, us: longer than for a free one here.

    A backward pass runs outside the lock, so what looks at it wait is what this machine takes to
    hand a free one over: mostly 0.1 to 0.2 ms. Twice what nine of ten such looks wait is not that;
    ``LEAST_US`` at least, ``HELD_US`` at most, and where they are few.
    """
    free = _free(samples, leaf)
    if len(free) < FEWEST:
        return float(HELD_US)
    return float(np.clip(2.0 * np.percentile(free, 90), LEAST_US, HELD_US))


def false_waits(samples: NDArray[Any], taken: float, leaf: list[str]) -> float:
    """The share of looks at a free lock that waited as long as if somebody had it (0-1).

    Looks at a backward pass, which runs outside the lock, tell; ``USUAL`` counts as one such wait,
    as few looks may hold none by chance. 0 where they are too few, and where so many of them waited
    that somebody did have the lock (``TAKEN``).
    """
    free = _free(samples, leaf)
    if _contended(free, taken):
        return 0.0
    return float(((free >= taken).sum() + 1.0) / (len(free) + 1.0 / USUAL))


def unseen_ends(
    samples: NDArray[Any], taken: float, leaf: list[str], between: Mask, false: float
) -> float:
    """How many looks fell into Python and could not tell, per look that could.

    A look at Python waits until the stretch ends, so near the end of each it waits no longer than
    for a free lock. Moments are random: such a stretch is looked at as often in any microsecond
    before its end. So what is missed between a free lock's usual wait and ``taken`` is at least as
    dense as what is found between ``taken`` and twice that, as no stretch is longer near its end.

    Args:
        samples: as the probe wrote them.
        taken: see ``taken_us``.
        leaf: what each stack ends in.
        between: looks between recorded calls; of these, those count that were random and had while
            steps were trained.
        false: see ``false_waits``: so many of the looks at a free lock are not counted.
    """
    backward = engine(leaf)[samples["stack"].astype(np.int64)]
    if backward.sum() < FEWEST:
        return 0.0
    steps = samples["time"][backward]
    mine = between & ~backward & (samples["time"] >= steps.min()) & (samples["time"] <= steps.max())
    held = samples["held"][mine & (samples["cpu"] >= 0)]
    told = float((held >= taken).sum() - false * len(held)) / (1.0 - false)
    if told < FEWEST:
        return 0.0
    near = ((held >= taken) & (held < 2 * taken)).sum() - NEAR * false * (len(held) - told)
    usual = float(np.median(samples["held"][backward]))
    missed = max(float(near), 0.0) * max(taken - usual, 0.0) / taken
    return min(missed / told, 1.0)


def _free(samples: NDArray[Any], leaf: list[str]) -> NDArray[Any]:
    """How long looks at a backward pass waited for the lock, which it leaves free, us."""
    free: NDArray[Any] = samples["held"][engine(leaf)[samples["stack"].astype(np.int64)]]
    return free


def _contended(free: NDArray[Any], taken: float) -> bool:
    """Whether looks at a backward pass are too few, or tell of another thread that has the lock."""
    return len(free) < FEWEST or bool((free >= taken).mean() >= TAKEN)


def found_free(samples: NDArray[Any], taken: float, leaf: list[str]) -> Mask:
    """Looks that found the lock free, as the other looks at the same line tell.

    A line that runs operators holds the lock for microseconds, and still a few of many looks at it
    wait by chance; a line that runs Python, or that the lock is handed over at after Python ran,
    has more of them. So where as many waits as at one line are to be expected by ``CHANCE``, given
    those at the backward pass, none of them tells of Python; nor do those at a backward pass. All
    this holds where looks at a backward pass are not few, and tell of no other thread that has the
    lock; else no look is known to have found it free.

    Args:
        samples: as the probe wrote them.
        taken: see ``taken_us``.
        leaf: what each stack ends in.
    """
    backward = _free(samples, leaf)
    if _contended(backward, taken):
        return np.zeros(len(samples), dtype=bool)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(leaf))}
    stack = samples["stack"].astype(np.int64)
    line = np.array([numbers[text] for text in leaf])[stack]
    random = (samples["cpu"] >= 0) | bool((samples["cpu"] < 0).all())  # not noted at a call
    looks = np.bincount(line[random], minlength=len(numbers))
    waited = np.bincount(line[random & (samples["held"] >= taken)], minlength=len(numbers))
    known = int((backward >= taken).sum()), len(backward)
    pairs = zip(waited.tolist(), looks.tolist(), strict=True)
    chance = np.array([by_chance(of, among, *known) for of, among in pairs])
    found: Mask = (chance > CHANCE)[line] | engine(leaf)[stack]
    return found


def by_chance(waited: int, looks: int, known: int, among: int) -> float:
    """How likely so many of some looks at a free lock wait, or more, where ``known`` did ``among``
    others, and one of 1 / ``USUAL`` usually does: the predictive distribution of a Poisson rate
    whose prior is gamma, which is negative binomial (Gelman et al., Bayesian Data Analysis, 2.6).
    """
    shape = known + 1
    part = looks / (looks + among + 1.0 / USUAL)
    fewer, term = 0.0, (1.0 - part) ** shape
    for count in range(waited):
        fewer += term
        term *= part * (shape + count) / (count + 1)
    return max(0.0, 1.0 - fewer)


def undelayed(samples: NDArray[Any], free: Mask) -> NDArray[Any]:
    """The same looks, those that found the lock ``free`` dated when they were had."""
    moved = samples.copy()
    moved["time"][free] += samples["held"][free].astype(np.int64) * 1000
    moved["held"][free] = 0
    return moved
