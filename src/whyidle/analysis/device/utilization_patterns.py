"""The pattern of a GPU's utilization in a log of samples, and what it makes likely. A sample tells
the share of its period in which any kernel ran, not what the device did, nor why it waited."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64

UNUSED: Final = 2.0
"""percent that other programs and the desktop may cause"""
BUSY, IDLE = 90.0, 20.0
"""percent from which a sample is busy, and below which it is idle"""
STEADY: Final = 15.0
"""percent by which the middle eight tenths of the samples differ at most where they are level"""
FEWEST: Final = 8
"""samples below which nothing recurs"""
RECURS: Final = 0.5
"""correlation with itself, a period later, from which the curve recurs; that of 8 or more unrelated
samples exceeds 0.5 in one of ten"""
LEVELS: Final = " .:-=+*#%@"
RUN: Final = "`whyidle run COMMAND`"


class UtilizationPattern(Struct, frozen=True):
    """``kind`` is unused, low, high, periodic or bursts; ``period`` counts samples."""

    kind: str
    idle: float
    """share of the time without any kernel"""
    period: int | None = None


def find_pattern(busy: F64) -> UtilizationPattern:
    """Return the pattern of utilizations in percent, one for each sample."""
    idle = 1.0 - float(busy.mean()) / 100
    if np.percentile(busy, 95) <= UNUSED:
        return UtilizationPattern("unused", idle)
    low, high = np.percentile(busy, [10, 90])
    if high - low <= STEADY:
        return UtilizationPattern("high" if low >= BUSY else "level", idle)
    if period := _find_period(busy):
        return UtilizationPattern("periodic", idle, period)
    return UtilizationPattern("bursts" if low < IDLE else "uneven", idle)


def _find_period(busy: F64) -> int | None:
    """The first lag, in samples, at which the curve resembles itself most: a peak of the
    autocorrelation between valleys, seen at least three times."""
    if len(busy) < 3 * FEWEST:
        return None
    centred = busy - busy.mean()
    size = 1 << (2 * len(busy) - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    most = len(busy) // 3
    overlap = len(busy) - np.arange(most + 1)
    alike = np.fft.irfft(power, size)[: most + 1] / overlap / max(float((centred**2).mean()), 1e-9)
    peaks = np.flatnonzero((alike[1:-1] >= alike[:-2]) & (alike[1:-1] > alike[2:])) + 1
    peaks = peaks[(peaks >= 2) & (alike[peaks] > RECURS)]
    if not len(peaks):
        return None
    return int(peaks[alike[peaks] >= 0.9 * alike[peaks].max()][0])


def draw_curve(busy: F64) -> str:
    """Return the curve as one line of signs, from blank (idle) to @ (busy)."""
    edges = np.linspace(0, len(busy), min(60, len(busy)) + 1).astype(int)
    means = [busy[a:b].mean() for a, b in pairwise(edges)]
    return "".join(LEVELS[round(mean / 100 * (len(LEVELS) - 1))] for mean in means)


def explain_pattern(pattern: UtilizationPattern, every: str) -> str:
    """Return what the pattern makes likely, and which command settles it; ``every`` is the period
    in words."""
    return {
        "unused": "Nothing ran on it: there was no job, or it ran on the CPU or another GPU, or "
        "was still starting. {RUN} tells which",
        "high": "A kernel ran nearly all the time, so waiting for data or for the CPU is unlikely. "
        "Whether the work was useful is another question: small kernels, waiting collectives and "
        "copies count too. {RUN} tells them apart",
        "level": "It was partly busy in every sample, so each step waits: for the batch, for the "
        f"CPU that launches, or for another rank; not for epochs or checkpoints. {RUN} tells which",
        "periodic": f"The pattern recurs every {every}. If that is a step, each one waits for its "
        "batch; if an epoch, workers start anew or an evaluation runs; if it is as often as "
        f"checkpoints, saving blocks. {RUN} tells which",
        "bursts": "It was busy in bursts without a period: uneven data loading, irregular "
        "requests, or interactive work. {RUN} tells which; `whyidle attach PID` observes a "
        "running job",
        "uneven": "It was busy unevenly, and never idle for long: batches or sequences of unequal "
        "size, or uneven data loading. {RUN} tells which",
    }[pattern.kind]
