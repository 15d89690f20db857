"""Which number of a knob to keep, of those that were tried."""

from __future__ import annotations

import resource
from collections.abc import Mapping

NEAR = 1.05
"""a number whose steps take up to this many times those of the fastest is as good: each worker
costs memory, open files and time at the start, and leaves a core less to others"""


def choose_value(
    step_s: Mapping[int, float],
    *,
    startup_s: Mapping[int, float] | None = None,
    steps_left: float | None = None,
) -> int:
    """The smallest number that is about as fast as the fastest.

    A number is as fast where its steps take at most ``NEAR`` times those of the fastest. Where the
    end of the job is known, the start-up counts, too.

    Args:
        step_s: mean length of a step by number, s.
        startup_s: seconds before the first step by number.
        steps_left: steps that the job still has to do; None where that is not known.

    Raises:
        ValueError: ``step_s`` is empty.
    """
    cost = {number: _spent(number, each, startup_s, steps_left) for number, each in step_s.items()}
    return min(number for number in cost if cost[number] <= NEAR * min(cost.values()))


def _spent(
    number: int, step_s: float, startup_s: Mapping[int, float] | None, steps_left: float | None
) -> float:
    """Seconds per step, with the start-up divided among the steps of the job."""
    if not steps_left or startup_s is None:
        return step_s
    return step_s + startup_s.get(number, 0.0) / steps_left


FILES_EACH = 12
"""open files that a worker costs the training process: its pipes, its sentinel, and what its two
batches ahead share"""
TASKS_EACH = 4
"""processes and threads that a worker is, of those that the user may have"""
USABLE = 0.5
"""of a limit; the rest is the job's own"""


def workers_within_limits(open_files: int, tasks: int) -> int | None:
    """The most workers that limits on open files and on the user's processes carry with room to
    spare; None where neither limits (``resource.RLIM_INFINITY``)."""
    bounds = [
        max(1, int(limit * USABLE / each))
        for limit, each in ((open_files, FILES_EACH), (tasks, TASKS_EACH))
        if limit != resource.RLIM_INFINITY
    ]
    return min(bounds, default=None)


def most_workers_here() -> int | None:
    """The same by the limits of this process, which the job inherits."""
    files, tasks = (
        resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return workers_within_limits(files, tasks)
