"""Interruptions of the training loop: how often, how long, and what the device lost by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.host_activity import interrupting_rows
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.sampling.share_error import is_sampled, share_bounds
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

RECORDING = (0.02, 0.15, 0.33)
"""share of a forward pass that recording for the backward pass costs: careful, expected, hopeful"""
RECORDED = "class figure: a forward pass without recording for backward"


@dataclass(frozen=True, slots=True, eq=False)
class Pauses:
    """Pauses of one role in scope. ``spans`` are the pauses on the host; ``share`` is how much of
    the step the device idled for them, ``least`` and ``most`` hold its sampling error where only
    stack samples tell of them; ``idle_s`` is for how long it idled during each, ``steps_hit``
    counts the steps that hold one, or were seen to: a stack sample speaks for like stretches of
    other steps too, in which nobody looked."""

    spans: Intervals
    share: float
    least: float
    most: float
    idle_s: NDArray[np.float64]
    steps_hit: int
    place: Place | None
    hit: NDArray[np.bool_]
    """of each step in scope, whether it holds a pause"""
    rest_s: NDArray[np.float64]
    """what each step takes beside its pauses, s"""
    rows: NDArray[np.int64]
    """host events that they are made of, those inside others too"""
    looked: bool = False
    """whether looks told which steps hold a pause: then more of them may"""

    @property
    def total_s(self) -> float:
        """Summed length on the host, s."""
        return self.spans.total / 1e9

    @property
    def longest_s(self) -> float:
        """The longest pause, s."""
        return float(self.spans.length.max(initial=0)) / 1e9

    @property
    def longest_idle_s(self) -> float:
        """The longest that the device idled for one of them, s."""
        return float(self.idle_s.max(initial=0.0))

    @property
    def is_recurring(self) -> bool:
        """Whether more than one step was hit: one pause alone does not tell how often it comes."""
        return self.steps_hit > 1


def find_pauses(facts: Facts, role: Role) -> Pauses | None:
    """Pauses of a role; None where there is none in scope."""
    rows = interrupting_rows(facts.host, facts.steps, role)
    rows = rows[facts.host_scope.contains_times(facts.timeline.host.start[rows])]
    return pauses_of(facts, role, rows) if len(rows) else None


def pauses_of(facts: Facts, role: Role, rows: NDArray[np.int64]) -> Pauses:
    """Pauses that some of a role's host events make, at least one, all in scope. The shares are
    those of the whole role."""
    host = facts.timeline.host
    spans = union_of(host.start[rows], host.end[rows])
    begin, end = (edges[facts.steps_in_scope] for edges in facts.steps.on_host)
    told = is_sampled(facts, rows)
    hit: NDArray[np.bool_] = spans.length_inside(begin, end) > 0
    looked = told and (seen := _steps_seen(facts, spans, begin, end)).any()
    if looked:
        hit = seen
    longest = int(rows[np.argmax(host.end[rows] - host.start[rows])])
    idle = facts.time_of(role).length_inside(spans.start, spans.end) / 1e9
    part, share = facts.time_of(role), facts.bucket_share(role)
    least, most = share_bounds(facts, part) if told else (share, share)
    return Pauses(
        spans,
        share,
        least,
        most,
        idle,
        int(hit.sum()),
        facts.places.place_of(longest),
        hit,
        (end - begin - spans.length_inside(begin, end)) / 1e9,
        rows,
        bool(looked),
    )


def _steps_seen(
    facts: Facts, spans: Intervals, begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """In which steps a stack sample itself lies in the spans."""
    looks = facts.timeline.looks
    if looks is None:
        return np.zeros(len(begin), bool)
    mine = spans.contains_times(looks.time)
    time = np.sort(looks.time[mine & looks.own])
    found: NDArray[np.bool_] = np.searchsorted(time, begin) < np.searchsorted(time, end)
    return found
