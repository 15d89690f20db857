"""Samples of a thread that was hardly ever awake until the next one: it waited."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostEvents

I64 = NDArray[np.int64]

IDLE: Final = 0.6
"""a thread that was runnable for less than this share of the time between samples was waiting"""
MOMENT_NS: Final = 1_000_000
"""in less time than this between samples nothing is said about waiting"""


def find_idle(samples: NDArray[Any], read: I64, met: HostEvents | None = None) -> NDArray[np.bool_]:
    """Samples between two of which the thread was hardly ever runnable, but for its recorded
    waiting for other ranks or for a batch.

    Args:
        samples: by time.
        read: when each was taken, ns.
        met: calls in which a thread sleeps until another process has come.
    """
    known = np.flatnonzero(samples["runnable_ns"] >= 0)
    found = np.zeros(len(samples), dtype=bool)
    if len(known) < 2:
        return found
    took = np.diff(read[known])
    if met is not None:
        mine = met.take_rows(np.isin(met.thread, samples["thread"][known]))
        took = took - np.diff(sum_before(mine, read[known]))
    ran = np.diff(samples["runnable_ns"][known])
    share = np.where(took < MOMENT_NS, 1.0, ran / np.maximum(took, MOMENT_NS))
    idle = np.append(share < IDLE, False)
    found[known] = idle | np.append(False, idle[:-1]) & (np.append(share, 1.0) < (1 + IDLE) / 2)
    return found


def sum_before(calls: HostEvents, moments: I64) -> I64:
    """How much time of disjoint or nested calls lies before each moment, ns."""
    if not len(calls):
        return np.zeros(len(moments), np.int64)
    calls = calls.take_rows(np.argsort(calls.start, kind="stable"))
    start, end = calls.start, calls.end
    start = np.maximum(start, np.append(start[:1], np.maximum.accumulate(end)[:-1]))
    length = np.maximum(end - start, 0)
    edges = np.stack([start, start + length], axis=1).ravel()
    return np.interp(
        moments,
        edges,
        np.repeat(np.cumsum(length), 2) - np.stack([length, np.zeros_like(length)], axis=1).ravel(),
    ).astype(np.int64)
