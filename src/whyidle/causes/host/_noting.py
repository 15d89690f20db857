"""What anomaly mode took to note where operators were called, as the process itself timed it.

Timed is the function that makes the text of a stack. On nine networks (perceptrons of 27 to 471
units, convolutions, transformers, an LSTM cell by cell; PyTorch 2.13, a CPU core) the forward pass
took 1.08 to 1.22 times as much longer, 1.19 in the median: what is noted is also kept, and thrown
away. The search for NaN, which is done for as many nodes, took 0.10 to 0.40 times as much where
operators are small (0.20 in the median), and more where gradients are large.

A call takes longer the deeper the stack that it notes, and all the rest does not: under Lightning
that was 4 to 7 % of what was timed. Where the time from the first to the last call of a step has no
room for more, the rest is what is neither a call nor a forward pass as its backward pass lets
expect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.causes.host._searching import passes, shortest
from whyidle.model.roles import Role

LEAST_CALLS = 20
KEPT = 1.19
"""times what was timed: all that noting takes"""
SEARCHED = 0.2
"""of that: the search for NaN, at least"""


class Noted(NamedTuple):
    """Shares of the step: what was timed, all that noting takes and may take at most, forward
    passes without it, and what the search for NaN takes at least."""

    timed: float
    noting: float
    most: float
    forward: float
    searched: float


def noted(facts: Facts) -> Noted | None:
    """None where nobody timed it.

    Both grow between reads as time goes by: of what lies between two reads that part counts which
    is in scope.
    """
    told = facts.timeline.settings.get("noting") or np.empty((0, 4))
    when, calls, spent, spans = np.array(told, dtype=np.int64).reshape(-1, 4).T
    if len(when) < 2 or calls[-1] < LEAST_CALLS:
        return None
    when = when - facts.timeline.base_ns
    start, end = (
        np.array([np.interp(edges, when, each) for each in (spent, spans)])
        for edges in (facts.scope.start, facts.scope.end)
    )
    timed, span = map(float, (end - start).sum(axis=1) / max(facts.scope.total, 1))
    besides = max(0.0, span - timed - _between(facts))
    rest = most = (KEPT - 1.0) * timed
    if rest > besides:
        likely, least = shortest(facts)
        rest, most = max(0.0, besides - likely), max(0.0, besides - least)
    searched = SEARCHED * KEPT / (KEPT - 1.0) * rest
    return Noted(timed, timed + rest, timed + most, besides - rest, searched)


def _between(facts: Facts) -> float:
    """Share of the step that backward passes take which are not its last: gradients of several
    batches are accumulated, and the next forward pass follows."""
    rows = facts.rows_of(Role.BACKWARD)
    count = int(np.count_nonzero(facts.scope.covers(facts.timeline.host.start[rows])))
    return facts.share_of(passes(facts)) * max(0.0, 1.0 - facts.step_count / max(count, 1))
