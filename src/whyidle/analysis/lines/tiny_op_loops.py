"""The user's lines that call short operators in sequence, by stack samples. A tensor filled one
element at a time calls thousands of operators of a microsecond from one line. Each counts as
operator time on a CPU, but Python and the dispatch take the time. The GIL shows it: during larger
operators samples find it free; at such a line they find it taken and get it within microseconds. A
longer wait means other Python before that line."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.sampling.share_error import wilson_interval
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

LONGEST_S: Final = 2 * 60e-6
"""``unsure`` samples got the GIL within 60 us (``FRAMEWORK_US``), on average halfway through what
they wait for; if most are such, it was released as often"""
LOOP_S: Final = 200e-6
"""ten times the usual time between two operators, as in ``python-overhead-in-step``"""


class TinyOpLoop(Struct, frozen=True):
    """Such lines of one function, the most expensive first, and all time at them."""

    where: tuple[Place, ...]
    spans: Intervals
    taken: tuple[float, float]
    """share (0-1) of the samples there with the GIL taken, at least and as counted"""
    looks: int
    calls: float
    """least operator calls per step"""


def find_tiny_op_loop(facts: Facts) -> TinyOpLoop | None:
    """Return the function with most such time, if its samples mostly got the GIL quickly."""
    samples = facts.timeline.looks
    if samples is None:
        return None
    work, own = facts.time_of("compute", "python", "preprocess"), _own_lines(facts)
    valid = (samples.weight > 0) & samples.own & work.contains_times(samples.time)
    shown, python = _stacks_at(facts, samples.time[valid])
    time, short = samples.weight[valid], samples.unsure[valid]
    at_place = {place: np.isin(shown, details) for place, details in own.items()}
    steps = max(facts.step_count, 1)
    spent = {place: float(time[at & short].sum()) / 1e9 / steps for place, at in at_place.items()}
    loops = {place: seconds for place, seconds in spent.items() if seconds >= LOOP_S}
    most = max(loops, key=lambda place: loops[place], default=None)
    if most is None:
        return None
    lines = [p for p in loops if (p.file, p.function) == (most.file, most.function)]
    at = np.logical_or.reduce([at_place[place] for place in lines])
    taken = at & (short | python)
    if wilson_interval(short[taken], time[taken])[1] < MOSTLY:
        return None
    low, share, _ = wilson_interval(taken[at], time[at])
    return TinyOpLoop(
        where=tuple(sorted(lines, key=lambda place: -loops[place])),
        spans=_time_at_stacks(facts, [detail for place in lines for detail in own[place]]) & work,
        taken=(low, share),
        looks=int(at.sum()),
        calls=sum(loops[place] for place in lines) / LONGEST_S,
    )


def _own_lines(facts: Facts) -> dict[Place, list[int]]:
    """The user's innermost sampled lines outside the training pass -> stacks that end there."""
    lines: defaultdict[Place, list[int]] = defaultdict(list)
    plays = facts.timeline.vocabulary.plays
    for number, detail in enumerate(facts.timeline.details):
        place = frame_place(detail.stack.split(";", 1)[0], facts.rank) if detail.stack else None
        if place is None or in_library(place) or plays(Role.TRAINING_FRAME, detail.stack):
            continue
        lines[place].append(number)
    return lines


def samples_python(facts: Facts, moments: I64) -> Mask:
    """Return whether the sample at each moment counts as Python."""
    return _stacks_at(facts, moments)[1]


def _stacks_at(facts: Facts, moments: I64) -> tuple[I64, Mask]:
    """The stack of the sample at each moment (-1: unknown), and whether it counts as Python."""
    host, rows = facts.timeline.host, _sampled_events(facts)
    if not len(rows):
        return np.full(len(moments), -1, np.int64), np.zeros(len(moments), dtype=bool)
    at = np.searchsorted(host.start[rows], moments, side="right") - 1
    known = (at >= 0) & (host.end[rows][at] > moments)
    shown = np.where(known, host.detail[rows][at], -1).astype(np.int64)
    return shown, known & (host.kind[rows][at] == HostKind.PYTHON)


def _time_at_stacks(facts: Facts, details: list[int]) -> Intervals:
    host, rows = facts.timeline.host, _sampled_events(facts)
    rows = rows[np.isin(host.detail[rows], details)]
    return union_of(host.start[rows], host.end[rows])


def _sampled_events(facts: Facts) -> I64:
    host = facts.timeline.host
    known = (host.detail >= 0) & is_among(host.kind, (HostKind.OP, HostKind.PYTHON))
    return np.flatnonzero(known & is_among(host.thread, facts.host.drivers))
