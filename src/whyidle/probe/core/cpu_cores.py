"""The cores that this process may use, now and when it started.

Libraries may bind a process to some of its cores when they are loaded, as OpenMP does with
``OMP_PROC_BIND``; every loader worker then inherits the binding of the thread that starts it.
"""

from __future__ import annotations

import os
from collections.abc import Collection

_given: list[frozenset[int]] = []


def remember_given_cores(given: Collection[int] | None) -> None:
    """Store the cores that the process had before its own code ran; None: unknown."""
    _given[:] = [] if given is None else [frozenset(given)]


def given_cores() -> frozenset[int] | None:
    """Return the numbers of the cores at the start of the process; None if unknown."""
    return _given[0] if _given else None


def given_count() -> float | None:
    """Return how many of them the control group's quota allows; None if unknown."""
    return _within_quota(len(_given[0])) if _given else None


def usable_cores() -> float:
    """Return how many cores the calling thread may use now, by affinity and quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return _within_quota(allowed or os.cpu_count() or 1)


def _within_quota(count: int) -> float:
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return float(count) if quota == "max" else min(float(count), int(quota) / int(period))
    except (OSError, ValueError):
        return float(count)
