"""Lines of the user's own that call short operators one after the other, as looks tell.

A tensor that is filled one element at a time calls thousands of operators of a microsecond, from
one line. Each counts for an operator, and that is the work itself on a CPU; yet it is Python that
takes the time, and the way to the operator. The interpreter's lock tells: beside operators of some
size looks find it free, at such a line they find it taken, and have it in no time. Where they wait
for it longer, it is other Python that ran before that line.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.sampling.share_error import wilson_interval
from whyidle.analysis.source_places import frame_place, in_library
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

I64 = NDArray[np.int64]

LONGEST_S: Final = 2 * 60e-6
"""looks of ``Looks.unsure`` had the lock within 60 us (``FRAMEWORK_US``), and they come
halfway through what they wait for, on average: where most are such, it was let go of as often"""
LOOP_S: Final = 200e-6
"""as in ``python-overhead-in-step``: ten times the usual way from one operator to the next, so a
line that takes as long in each step calls many, or is reached often"""
MOSTLY: Final = 0.5


@dataclass(frozen=True, slots=True)
class TinyOpLoop:
    """Such lines of one function, the dearest first, and all time at them. ``taken`` is the part
    (0-1) of the ``looks`` there that found the lock taken, at least and as counted; ``calls`` are
    those of a step, at least."""

    where: tuple[Place, ...]
    spans: Intervals
    taken: tuple[float, float]
    looks: int
    calls: float


def find_tiny_op_loop(facts: Facts) -> TinyOpLoop | None:
    """The function that spends most time so. None where no looks were taken, and where most of
    those at its lines had to wait for longer."""
    looks = facts.timeline.looks
    if looks is None:
        return None
    work, own = facts.time_of("compute", "python", "preprocess"), _own_lines(facts)
    seen = (looks.weight > 0) & looks.own & work.contains_times(looks.time)
    shown, python = _stacks_at(facts, looks.time[seen])
    time, short = looks.weight[seen], looks.unsure[seen]
    here = {place: np.isin(shown, details) for place, details in own.items()}
    spent = {place: _per_step(facts, time[at & short]) for place, at in here.items()}
    loops = {place: seconds for place, seconds in spent.items() if seconds >= LOOP_S}
    most = max(loops, key=lambda place: loops[place], default=None)
    if most is None:
        return None
    mine = [p for p in loops if (p.file, p.function) == (most.file, most.function)]
    at = np.logical_or.reduce([here[place] for place in mine])
    taken = at & (short | python)
    if wilson_interval(short[taken], time[taken])[1] < MOSTLY:
        return None
    surely, part, _ = wilson_interval(taken[at], time[at])
    return TinyOpLoop(
        where=tuple(sorted(mine, key=lambda place: -loops[place])),
        spans=_time_at_stacks(facts, [detail for place in mine for detail in own[place]]) & work,
        taken=(surely, part),
        looks=int(at.sum()),
        calls=sum(loops[place] for place in mine) / LONGEST_S,
    )


def _own_lines(facts: Facts) -> dict[Place, list[int]]:
    """The user's lines that looks show as the innermost, outside the training pass, each with the
    stacks (``timeline.details``) that end there. How many operators the model, its backward pass
    and its update need is not told by one line, whoever wrote them."""
    found: defaultdict[Place, list[int]] = defaultdict(list)
    plays = facts.timeline.vocabulary.plays
    for number, detail in enumerate(facts.timeline.details):
        place = frame_place(detail.stack.split(";", 1)[0], facts.rank) if detail.stack else None
        if place is None or in_library(place) or plays(Role.TRAINING_FRAME, detail.stack):
            continue
        found[place].append(number)
    return found


def _stacks_at(facts: Facts, moments: I64) -> tuple[I64, NDArray[np.bool_]]:
    """Which stack the look of each moment shows, -1 where none is known; and whether it counts for
    Python."""
    host, rows = facts.timeline.host, _sampled_events(facts)
    if not len(rows):
        return np.full(len(moments), -1, np.int64), np.zeros(len(moments), dtype=bool)
    at = np.searchsorted(host.start[rows], moments, side="right") - 1
    known = (at >= 0) & (host.end[rows][at] > moments)
    shown = np.where(known, host.detail[rows][at], -1).astype(np.int64)
    return shown, known & (host.kind[rows][at] == HostKind.PYTHON)


def _time_at_stacks(facts: Facts, details: list[int]) -> Intervals:
    """All time that looks at these stacks speak for."""
    host, rows = facts.timeline.host, _sampled_events(facts)
    rows = rows[np.isin(host.detail[rows], details)]
    return union_of(host.start[rows], host.end[rows])


def _sampled_events(facts: Facts) -> I64:
    """Events that looks at the training thread made."""
    host = facts.timeline.host
    known = (host.detail >= 0) & is_among(host.kind, (HostKind.OP, HostKind.PYTHON))
    return np.flatnonzero(known & is_among(host.thread, facts.host.drivers))


def _per_step(facts: Facts, weights: NDArray[np.float64]) -> float:
    return float(weights.sum()) / 1e9 / max(facts.step_count, 1)
