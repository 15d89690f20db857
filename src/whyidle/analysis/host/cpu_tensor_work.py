"""Operators that compute on the CPU in the loop of a job whose device is another: they contain no
call of the device's runtime, and take longer than an operator takes to launch."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

LEAST_NS: Final = 50_000
"""an operator without work takes up to 20 us under a profiler (dispatch, views); one core streams
about half a megabyte in this time"""
OTHERS: Final = (
    Role.LOADER,
    Role.PREPROCESS,
    Role.CHECKPOINT,
    Role.EVALUATION,
    Role.LOGGING,
    Role.COMPILE,
    Role.COLLECTIVE_WAIT,
)
"""roles whose time has causes of its own"""
NO_WORK: Final = (Role.DATA_MOVEMENT, Role.COLLECTIVE_RECORD, Role.BACKWARD_NODE)
"""operators that move data, wait, or are marks"""


def find_cpu_work(facts: StepScope) -> tuple[I64, Intervals]:
    """Return the operators in scope that compute on the CPU (host rows), and when they run."""
    host = facts.timeline.host
    rows = facts.host.innermost_rows((HostKind.OP,), LEAST_NS)
    rows = rows[facts.host_scope.contains_times(host.start[rows])]
    rows = np.setdiff1d(rows, np.concatenate([facts.timeline.rows_of(r) for r in NO_WORK]))
    for role in OTHERS if len(rows) else ():
        rows = rows[~facts.host.time_in(role).contains_times(host.start[rows])]
    return rows, union_of(host.start[rows], host.end[rows])
