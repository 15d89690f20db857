"""What a late rank does that the others do not, by the events of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

KINDS = (HostKind.PYTHON, HostKind.OP, HostKind.ANNOTATION)


class LateWork(NamedTuple):
    """What takes the late rank most of its delay."""

    name: str
    place: Place | None


def find_late_work(
    ranks: Sequence[Facts], index: int, reason: str, excess_s: float
) -> LateWork | None:
    """Return what takes rank number ``index`` at least half of its ``excess_s`` seconds per step in
    a bucket longer than the others: the innermost such function or operator, for *compute* a group
    of kernels. None where none is recorded, and for stack samples, which need no comparison."""
    late, others = ranks[index], [facts for i, facts in enumerate(ranks) if i != index]
    if late.timeline.source.format == "probe" or not others:
        return None
    find = _kernel_time if reason == "compute" else _host_time
    spent, rest = find(late, reason), [find(facts, reason) for facts in others]
    longer = {
        name: took - sum(one.get(name, 0.0) for one in rest) / len(rest)
        for name, took in spent.items()
    }
    explaining = [name for name, more in longer.items() if more >= MOSTLY * excess_s > 0.0]
    if not explaining:
        return None
    name = min(explaining, key=lambda one: spent[one])
    return LateWork(name, None if reason == "compute" else _place_of(late, name))


def _kernel_time(facts: Facts, reason: str) -> dict[str, float]:  # noqa: ARG001
    """Seconds per step by group of kernels."""
    groups, index = np.unique(facts.group[facts.kernels], return_inverse=True)
    seconds = np.bincount(index, facts.durations_s(facts.kernels), minlength=len(groups))
    per_step = seconds / max(facts.step_count, 1)
    return {f"{group} kernels": float(s) for group, s in zip(groups, per_step, strict=True)}


def _host_time(facts: Facts, reason: str) -> dict[str, float]:
    """Seconds per step in a bucket by name of the event around it."""
    host, time = facts.timeline.host, facts.time_of(reason)
    rows = np.flatnonzero(is_among(host.kind, KINDS) & is_among(host.thread, facts.host.drivers))
    rows = np.setdiff1d(rows, facts.timeline.rows_of(Role.PROFILER_STEP))
    inside = time.length_inside(host.start[rows], host.end[rows])
    totals = np.bincount(host.name[rows], inside, minlength=len(facts.timeline.names))
    per_step = totals / 1e9 / max(facts.step_count, 1)
    return {facts.timeline.names[i]: float(per_step[i]) for i in np.flatnonzero(per_step)}


def _place_of(facts: Facts, name: str) -> Place | None:
    host = facts.timeline.host
    rows = np.flatnonzero(host.name == facts.timeline.names.index(name))
    return facts.places.place_of(int(rows[np.argmax((host.end - host.start)[rows])]))
