"""Which waits of a watched process are for what another process or thread of the job makes: a batch
from a queue, an answer over a pipe, the result of a pool."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.source_places import frame_place, in_library
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

I64 = NDArray[np.int64]

_TAKES = re.compile(
    r"(^|/)(queue\.py\(\d+\): get|multiprocessing/(queues\.py\(\d+\): get|"
    r"connection\.py\(\d+\): (recv|recv_bytes|recv_bytes_into|poll|wait)|"
    r"pool\.py\(\d+\): (next|get|wait|map|starmap|apply))|concurrent/futures/"
    r"_base\.py\(\d+\): (result|result_iterator|as_completed|wait))$"
)
"""functions of the standard library that return when another process or thread has done its part"""


def find_producer_waits(timeline: Timeline) -> I64:
    """Rows of waits in such a function, called by the user's own code. A library that calls one (a
    tracker that waits for its upload) waits for something of its own."""
    rows = timeline.rows_of(Role.BLOCKED)
    details, host = timeline.details, timeline.host
    mine = [_is_taking(details[host.detail[row]].stack) for row in rows]
    return rows[np.array(mine, dtype=bool)]


def _is_taking(stack: str) -> bool:
    called = ""
    for frame in stack.split(";"):
        place = frame_place(frame, None)
        if place is not None and not in_library(place):
            return bool(_TAKES.search(called.strip()))
        called = frame
    return False
