"""Chooses the value of a knob from measured step times."""

from __future__ import annotations

import resource
from collections.abc import Mapping

NEAR = 1.05
"""a value within this factor of the fastest is as good: a worker costs memory, files and a core"""


def choose_value(
    step_s: Mapping[int, float],
    *,
    startup_s: Mapping[int, float] | None = None,
    steps_left: float | None = None,
) -> int:
    """Choose the smallest value whose cost is within ``NEAR`` of the fastest. The cost is the step
    time, s, with a share of the start-up, s, for each of the job's ``steps_left``, if known.

    Raises:
        ValueError: ``step_s`` is empty.
    """
    extra_s = startup_s if startup_s and steps_left else {}
    cost = {
        number: each + extra_s.get(number, 0.0) / (steps_left or 1.0)
        for number, each in step_s.items()
    }
    return min(number for number in cost if cost[number] <= NEAR * min(cost.values()))


FILES_EACH = 12
"""open files per worker in the training process: pipes, sentinel, two shared batches"""
TASKS_EACH = 4  # processes and threads per worker
USABLE = 0.5  # usable share of a limit; the rest is for the job itself


def workers_within_limits(open_files: int, tasks: int) -> int | None:
    """Most workers within the limits of open files and processes; None if both are unlimited."""
    bounds = [
        max(1, int(limit * USABLE / each))
        for limit, each in ((open_files, FILES_EACH), (tasks, TASKS_EACH))
        if limit != resource.RLIM_INFINITY
    ]
    return min(bounds, default=None)


def most_workers_here() -> int | None:
    """Most workers within the limits of this process, which the job inherits."""
    files, tasks = (
        resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return workers_within_limits(files, tasks)
