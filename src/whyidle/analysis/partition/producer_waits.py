"""Waits of a watched process for data that another process or thread of the job produces."""

from __future__ import annotations

import re

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

_TAKES = re.compile(
    r"(^|/)(queue\.py\(\d+\): get|multiprocessing/(queues\.py\(\d+\): get|"
    r"connection\.py\(\d+\): (recv|recv_bytes|recv_bytes_into|poll|wait)|"
    r"pool\.py\(\d+\): (next|get|wait|map|starmap|apply))|concurrent/futures/"
    r"_base\.py\(\d+\): (result|result_iterator|as_completed|wait))$"
)
"""standard library functions that return once another process or thread has done its part"""


def find_producer_waits(timeline: Timeline) -> I64:
    """Return the rows of waits in such a function called by the user's own code."""
    rows = timeline.rows_of(Role.BLOCKED)
    details, host = timeline.details, timeline.host
    taking = [_is_taking(details[host.detail[row]].stack) for row in rows]
    return rows[np.array(taking, dtype=bool)]


def _is_taking(stack: str) -> bool:
    called = ""
    for frame in stack.split(";"):
        place = frame_place(frame, None)
        if place is not None and not in_library(place):
            return bool(_TAKES.search(called.strip()))
        called = frame
    return False
