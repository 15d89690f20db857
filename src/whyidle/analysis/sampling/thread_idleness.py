"""Samples of a thread that was hardly awake until the next sample, and so waited."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.model.timeline import HostEvents

IDLE: Final = 0.6
"""a thread that was runnable for less than this share of the time between samples was waiting"""
MOMENT_NS: Final = 1_000_000
"""shorter intervals between samples are not judged"""


def find_idle(samples: NDArray[Any], read: I64, met: HostEvents | None = None) -> Mask:
    """Return the samples (by time, taken when ``read``, ns) between which the thread was hardly
    runnable, apart from calls that wait for another process (``met``)."""
    known = np.flatnonzero(samples["runnable_ns"] >= 0)
    waiting = np.zeros(len(samples), dtype=bool)
    if len(known) < 2:
        return waiting
    elapsed = np.diff(read[known])
    if met is not None:
        own_calls = met.take_rows(np.isin(met.thread, samples["thread"][known]))
        elapsed = elapsed - np.diff(sum_before(own_calls, read[known]))
    ran = np.diff(samples["runnable_ns"][known])
    share = np.where(elapsed < MOMENT_NS, 1.0, ran / np.maximum(elapsed, MOMENT_NS))
    idle = np.append(share < IDLE, False)
    waiting[known] = idle | np.append(False, idle[:-1]) & (np.append(share, 1.0) < (1 + IDLE) / 2)
    return waiting


def sum_before(calls: HostEvents, moments: I64) -> I64:
    """Return how much time of disjoint or nested calls lies before each moment, ns."""
    if not len(calls):
        return np.zeros(len(moments), np.int64)
    calls = calls.take_rows(np.argsort(calls.start, kind="stable"))
    start, end = calls.start, calls.end
    start = np.maximum(start, np.append(start[:1], np.maximum.accumulate(end)[:-1]))
    length = np.maximum(end - start, 0)
    edges = np.stack([start, start + length], axis=1).ravel()
    done = np.cumsum(length)
    totals = np.stack([done - length, done], axis=1).ravel()
    return np.interp(moments, edges, totals).astype(np.int64)
