"""Interruptions of the training loop: how often, how long, and the device time lost."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.host_activity import interrupting_rows
from whyidle.analysis.sampling.share_error import is_sampled, share_bounds
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

RECORDING = (0.02, 0.15, 0.33)
"""share of a forward pass that recording for the backward pass costs (low, expected, high)"""
RECORDED = "class figure: a forward pass without recording for backward"


class Pauses(Struct, frozen=True, eq=False):
    """Pauses of one role in scope."""

    role: Role
    spans: Intervals
    """the pauses on the host"""
    share: float
    """part of the step that the device idled for them"""
    least: float
    most: float
    """``share`` with its sampling error, if they are known by samples"""
    idle_s: F64
    """idle time of each"""
    steps_hit: int
    """steps with a pause, or with a sample of one, which also represents other steps"""
    place: Place | None
    hit: Mask
    """of each step in scope, whether it holds a pause"""
    rest_s: F64
    """time of each step without its pauses, s"""
    rows: I64
    """their host events, nested ones included"""
    looked: bool = False
    """whether ``hit`` is known by samples, so that more steps may hold a pause"""

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
        """Whether more than one step was hit; the frequency of a single pause is unknown."""
        return self.steps_hit > 1


def find_pauses(facts: Facts, role: Role) -> Pauses | None:
    """Return the pauses of a role; None where there is none in scope."""
    rows = interrupting_rows(facts.host, facts.steps, role)
    rows = rows[facts.host_scope.contains_times(facts.timeline.host.start[rows])]
    return pauses_of(facts, role, rows) if len(rows) else None


def pauses_of(facts: Facts, role: Role, rows: I64) -> Pauses:
    """Return the pauses of some host events of a role; the shares are the whole role's."""
    host = facts.timeline.host
    spans = union_of(host.start[rows], host.end[rows])
    begin, end = (edges[facts.steps_in_scope] for edges in facts.steps.on_host)
    sampled = is_sampled(facts, rows)
    hit: Mask = spans.length_inside(begin, end) > 0
    by_samples = sampled and (sampled_steps := _steps_seen(facts, spans, begin, end)).any()
    if by_samples:
        hit = sampled_steps
    longest = int(rows[np.argmax(host.end[rows] - host.start[rows])])
    idle = facts.time_of(role).length_inside(spans.start, spans.end) / 1e9
    part, share = facts.time_of(role), facts.bucket_share(role)
    least, most = share_bounds(facts, part) if sampled else (share, share)
    rest = (end - begin - spans.length_inside(begin, end)) / 1e9
    place, steps_hit = facts.places.place_of(longest), int(hit.sum())
    shares = share, least, most
    return Pauses(role, spans, *shares, idle, steps_hit, place, hit, rest, rows, bool(by_samples))


def _steps_seen(facts: Facts, spans: Intervals, begin: I64, end: I64) -> Mask:
    samples = facts.timeline.looks
    if samples is None:
        return np.zeros(len(begin), bool)
    inside = spans.contains_times(samples.time)
    time = np.sort(samples.time[inside & samples.own])
    sampled_steps: Mask = np.searchsorted(time, begin) < np.searchsorted(time, end)
    return sampled_steps
