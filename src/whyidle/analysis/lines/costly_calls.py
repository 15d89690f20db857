"""The line of the user's program, or the library's function that it calls, with most of the step.

Recorded calls (backward passes, updates, batches from workers) and the model's own operators have
causes of their own, and so have lines that another cause explains."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.line_purposes import FrameReader
from whyidle.analysis.lines.operator_loops import find_operator_loop, find_rollout
from whyidle.analysis.lines.repeated_results import find_repeated_results
from whyidle.analysis.lines.reporting_work import find_reporting_work
from whyidle.analysis.lines.source_lines import source_line
from whyidle.analysis.sampling.sample_weighting import find_nearest
from whyidle.analysis.steps.step_growth import find_growth
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Place
from whyidle.model.purposes import Purpose
from whyidle.model.roles import Role

_APART: Final = (Role.BACKWARD, Role.OPTIMIZER_OPERATORS, Role.GC, Role.CHECKPOINT, Role.COMPILE)
_ELSEWHERE: Final = ("locked", "blocked", "evaluation", "producer", "collective_wait", "unseen")
"""reasons of causes of their own, whatever line they stop"""
_OWN: Final = frozenset({Purpose.OTHER, Purpose.METRICS, Purpose.NORMS, Purpose.FILES})
"""purposes of code that is the user's to change"""
_FUNCTION: Final = re.compile(r"\): (?:.*\.)?(?P<name>\w+)")


class LibraryCall(NamedTuple):
    """A costly use of a library, and its cheaper form: a row of ``library_calls.tsv``."""

    what: str
    frames: str
    text: str
    source: str
    """regular expressions of the library's frames; or of a line that calls code without frames;
    and of what the file must have, so that the cheaper form fits"""
    stays: tuple[float, ...]
    """part of its time that the cheaper form takes (low, expected, high gain)"""
    has_gradient: bool
    advice: str


class CostlyCall(Struct, frozen=True, eq=False):
    """A call with much of the step."""

    what: str
    """the library's work, or the function that the line calls"""
    places: tuple[Place, ...]
    """the line that calls it, or lines with most time first"""
    spans: Intervals
    known: LibraryCall | None = None
    stays: tuple[float, ...] = (1.0, 0.5, 0.0)
    """part of its time that stays (low, expected, high gain); of own code, nobody knows"""
    part: float = 0.0
    """part of the time of model and loss that it is"""


def _read_table() -> Iterator[LibraryCall]:
    table = files(__package__).joinpath("library_calls.tsv").read_text("utf-8")
    for row in (line.split("\t") for line in table.splitlines() if line[0] != "#"):
        what, frames, text, source, stays, gradient, advice = row
        kept = tuple(map(float, stays.split()))
        yield LibraryCall(what, frames, text, source, kept, gradient == "yes", advice)


LIBRARY_CALLS: Final = tuple(_read_table())


class _Sampled(NamedTuple):
    """One stack, innermost frame first, and when samples show it."""

    frames: list[str]
    own: list[Place]
    purpose: Purpose
    spans: Intervals


def find_costly_call(facts: Facts) -> CostlyCall | None:
    """Return the known use of a library with most time that could go, or the innermost line with
    most of the step; None of a GPU's job, and without stack samples."""
    watched = facts.on_cpu and facts.timeline.looks is not None
    if not watched or facts.timeline.framework not in (None, "pytorch"):
        return None
    stacks = list(_read_stacks(facts))
    known = [call for row in LIBRARY_CALLS if (call := _find_known(facts, stacks, row))]
    line = _find_line(facts, stacks)
    best = max(known, key=lambda call: call.spans.total * (1.0 - call.stays[1]), default=None)
    if best is None or line is None:
        return best or line
    inside = (best.spans & line.spans).total > MOSTLY * line.spans.total
    return best if inside or facts.share_of(best.spans) > facts.share_of(line.spans) else line


def _read_stacks(facts: Facts) -> Iterator[_Sampled]:
    """Stacks of the training thread in steps; those in calls that other causes judge, or inside a
    backward pass, have its purpose."""
    timeline, host = facts.timeline, facts.timeline.host
    rows = np.flatnonzero((host.detail >= 0) & is_among(host.thread, facts.host.drivers))
    rows = rows[facts.scope.contains_times(host.start[rows])]
    rows = rows[np.argsort(host.start[rows], kind="stable")]
    recorded = np.concatenate([timeline.rows_of(role) for role in _APART])
    apart = union_of(host.start[recorded], host.end[recorded]) | facts.time_of(*_ELSEWHERE)
    keys = host.detail[rows].astype(np.int64) * 2 + apart.contains_times(host.start[rows])
    batches = timeline.rows_of(Role.BATCH_REQUEST)
    requests = union_of(host.start[batches], host.end[batches])
    unseen = (requests & facts.scope) - union_of(host.start[rows], host.end[rows])
    asked = np.flatnonzero(requests.contains_times(host.start[rows]))
    if not len(asked):
        unseen = EMPTY
    near = asked[find_nearest(host.start[rows[asked]], unseen.start)] if len(asked) else asked
    read = FrameReader(timeline.vocabulary, facts.rank)
    for key in np.unique(keys):  # a piece of a request without a sample is as the nearest with one
        shown, stack = rows[keys == key], timeline.details[int(key) // 2].stack
        own = read.own_places(stack)
        found = read.purpose_of(stack, source_line(timeline.sources, own[0]) if own else "")
        purpose = Purpose.BACKWARD if key % 2 else found.purpose
        spans = union_of(host.start[shown], host.end[shown]) & facts.scope
        yield _Sampled(stack.split(";"), own, purpose, spans | unseen.select(keys[near] == key))


def _spans_of(stacks: list[_Sampled]) -> Intervals:
    start = np.concatenate([EMPTY.start, *(stack.spans.start for stack in stacks)])
    return union_of(start, np.concatenate([EMPTY.end, *(stack.spans.end for stack in stacks)]))


def _lines_of(stacks: list[_Sampled]) -> list[Place]:
    spent: Counter[Place] = Counter()
    for stack in stacks:
        spent[stack.own[0]] += stack.spans.total
    return [place for place, _ in spent.most_common()]


def _find_known(facts: Facts, stacks: list[_Sampled], row: LibraryCall) -> CostlyCall | None:
    """The time of a library's function, below the user's innermost line. Work in C has no frame:
    the line's text tells, outside of loaders, whose short Python may be counted at such a line,
    and only with most of the step, as an array that is only copied costs next to nothing."""
    sources = facts.timeline.sources
    found = []
    for stack in (x for x in stacks if x.own and x.purpose is not Purpose.BACKWARD):
        if row.frames:
            inner = stack.frames[: _depth_of(stack, stack.own[0])]
            hit = any(re.search(row.frames, frame) for frame in inner)
        else:
            leaf = stack.purpose in _OWN and not _depth_of(stack, stack.own[0])
            hit = leaf and bool(re.search(row.text, source_line(sources, stack.own[0])))
        text = sources.get(stack.own[0].file or "", "")
        if hit and (not row.source or re.search(row.source, text)):
            found.append(stack)
    spans = _spans_of(found)
    if not found or (not row.frames and facts.share_of(spans) < MOSTLY):
        return None
    model = (Purpose.FORWARD, Purpose.LOSS)
    before = sum(stack.spans.total for stack in stacks if stack.purpose in model or stack in found)
    time = sum(stack.spans.total for stack in found)
    part = time / max(before, 1) if row.has_gradient else 0.0
    return CostlyCall(row.what, tuple(_lines_of(found)), spans, row, row.stays, part)


def _depth_of(stack: _Sampled, place: Place) -> int:
    """Number of frames that the user's line leads to: those before it, innermost first."""
    wanted = f"{place.file}({place.line}): {place.function}"
    return stack.frames.index(wanted) if wanted in stack.frames else 0


def _find_line(facts: Facts, stacks: list[_Sampled]) -> CostlyCall | None:
    """The innermost line that leads to most of the step, by code of the user's own. What mostly
    runs Python is ``python-overhead-in-step``."""
    trains = (Purpose.BACKWARD, Purpose.OPTIMIZER, Purpose.FORWARD)
    around = {place for stack in stacks if stack.purpose in trains for place in stack.own}
    known = _explained_time(facts)
    led: defaultdict[Place, list[_Sampled]] = defaultdict(list)
    for stack in stacks:
        if stack.purpose in _OWN and not known.contains_times(stack.spans.start).all():
            for place in dict.fromkeys(stack.own):
                led[place].append(stack)
    spans = {place: _spans_of(led[place]) - known for place in led if place not in around}
    most = [place for place, time in spans.items() if facts.share_of(time) > MOSTLY]
    line = min(most, key=lambda x: (spans[x].total, -len(led[x][0].own)), default=None)
    python = facts.time_of("python")
    if line is None or (spans[line] & python).total >= MOSTLY * spans[line].total:
        return None
    called: Counter[str] = Counter()
    for stack in led[line]:
        at = _depth_of(stack, line)
        called[stack.frames[at - 1] if at else ""] += stack.spans.total
    frame, time = called.most_common(1)[0]
    name = _FUNCTION.search(frame) if time > MOSTLY * called.total() else None
    return CostlyCall(name["name"] if name else "", (line, *_lines_of(led[line])), spans[line])


def _explained_time(facts: Facts) -> Intervals:
    """When samples show lines that other causes explain."""
    growth, loop = find_growth(facts), find_rollout(facts) or find_operator_loop(facts)
    spans = EMPTY if growth is None else growth.line.sampled_time
    for found in (find_reporting_work(facts), find_repeated_results(facts), loop):
        spans = spans if found is None else spans | found.spans
    return spans


def time_of_line_causes(facts: Facts) -> Intervals:
    """Return the time that causes found by line explain, so that others do not explain it again."""
    call = find_costly_call(facts)
    return _explained_time(facts) | (call.spans if call else EMPTY)
