"""The cores that this process may use, and those that it was given when it started.

Libraries may bind a process to some of its cores once they are loaded, OpenMP with
``OMP_PROC_BIND`` for one; every loader worker is then bound as the thread is that starts it.
"""

from __future__ import annotations

import os
from collections.abc import Collection

_given: list[frozenset[int]] = []


def remember_given_cores(given: Collection[int] | None) -> None:
    """Keep those that the process had before anything of its own ran; None: not known."""
    _given[:] = [] if given is None else [frozenset(given)]


def given_cores() -> frozenset[int] | None:
    """Their numbers; None where they are not known."""
    return _given[0] if _given else None


def given_count() -> float | None:
    """How many of them the control group's quota allows; None where they are not known."""
    return _within_quota(len(_given[0])) if _given else None


def usable_cores() -> float:
    """Cores that the calling thread may use now: by affinity, and by the quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return _within_quota(allowed or os.cpu_count() or 1)


def _within_quota(count: int) -> float:
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return float(count) if quota == "max" else min(float(count), int(quota) / int(period))
    except (OSError, ValueError):
        return float(count)
