"""The steady steps divided by line of the user's program and by purpose.

In a watched process recorded calls (batches, backward passes, optimizers, pauses) have exact
lengths; stack samples divide the rest, and tell the lines. A call without a sample is as the
nearest one with a sample: a trainer's optimizer runs the model, hooks and logs in its closure.
Nothing is measured for it in addition.
In a profiler trace the recorded Python functions tell; a line is then where a function begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.batchable_loops import LoopLines, find_loops
from whyidle.analysis.lines.fixed_results import FixedLines, find_fixed_lines
from whyidle.analysis.lines.line_purposes import FrameReader
from whyidle.analysis.lines.needed_lines import NeededLines, judge_sources
from whyidle.analysis.lines.source_lines import source_line
from whyidle.analysis.partition.nesting import Nesting
from whyidle.analysis.sampling.sample_weighting import find_nearest
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.diagnosis import Place
from whyidle.model.frames import own_files
from whyidle.model.purposes import REPORTS, Purpose
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Timeline

_PAUSES: Final = (
    (Role.GC, Purpose.COLLECTOR),
    (Role.CHECKPOINT, Purpose.CHECKPOINT),
    (Role.EVALUATION, Purpose.EVALUATION),
    (Role.COMPILE, Purpose.COMPILER),
    (Role.BATCH_REQUEST, Purpose.DATA),
    (Role.COLLECTIVE_WAIT, Purpose.COMMUNICATION),
)
"""recorded calls that have a purpose, whatever runs in them, in this order"""
_PASSES: Final = ((Role.BACKWARD, Purpose.BACKWARD), (Role.OPTIMIZER_OPERATORS, Purpose.OPTIMIZER))
"""recorded calls that have a purpose where no sample shows another: the model that an optimizer's
closure calls, a hook of a backward pass"""
_OF_REPORTS: Final = {Purpose.LOSS: Purpose.METRICS, Purpose.FORWARD: Purpose.OTHER}
"""what a loss or a model is that training does not use"""
MOST_CALLS: Final = 300_000
"""calls of Python functions in a recording up to which they are nested: a few seconds of work"""


@dataclass(slots=True)
class StepLine:
    """A line of the user's program, and its time in the steps in scope."""

    place: Place | None
    purpose: Purpose
    caller: Place | None = None
    """of a line that only reports: the line of the training loop that leads to it"""
    rare: bool = False  # whether it runs once in many steps, by the source
    by_trainer: bool = False  # whether a trainer reports by itself, at a line that training needs
    loop: Place | None = None
    """the line in a loop that one call could replace (``batchable_loops``) which leads to it"""
    layer: str = ""  # of PyTorch, that could replace this loop, if it is one over time steps
    fixed: Place | None = None
    """the line that computes the same again (``fixed_results``) which leads to it"""
    for_samples: bool = False  # whether that holds only where the samples are the same
    in_rollout: bool = False
    """whether a loop that asks a policy for one action at a time leads to it"""
    time: int = 0  # ns in all steps in scope
    waits: int | None = None
    """time of it in which the device is idle, ns; None where the CPU is the device, or unknown"""
    spans: list[tuple[int, int]] = field(default_factory=list)  # when samples show it, ns

    @property
    def only_reports(self) -> bool:
        """Whether training needs nothing of it."""
        return self.caller is not None

    @property
    def sampled_time(self) -> Intervals:
        """When samples or recorded calls show it."""
        if not self.spans:
            return EMPTY
        start, end = np.array(self.spans, dtype=np.int64).T
        return union_of(start, end)


Lines = dict[tuple[Place | None, Purpose], StepLine]


def divide_step(facts: StepScope) -> list[StepLine]:
    """Return the lines of the steps in scope, those with most time first; none of a recording
    without stacks."""
    lines = _read_trace(facts) if facts.timeline.looks is None else _read_process(facts)
    joined: dict[object, StepLine] = {}
    for line in (line for line in lines.values() if line.time):
        # a comprehension has a frame of its own
        spot = line.place and (line.place.file, line.place.line)
        first = joined.setdefault((spot, line.purpose, line.caller), line)
        if first is not line:
            first.time += line.time
            first.waits = None if line.waits is None else (first.waits or 0) + line.waits
            first.spans += line.spans
    return sorted(joined.values(), key=lambda line: -line.time)


def find_passes(facts: StepScope) -> Intervals:
    """Return the recorded calls of which samples tell what runs in them."""
    rows = np.concatenate([facts.rows_of(role) for role, _ in _PASSES])
    rows = rows[is_among(facts.timeline.host.thread[rows], facts.host.drivers)]
    return union_of(facts.timeline.host.start[rows], facts.timeline.host.end[rows])


def _read_trace(facts: StepScope) -> Lines:
    lines: Lines = {}
    read = _StackReader(facts.timeline, facts.rank)
    for stack, time, waits in traced_stacks(facts):
        line = read.line_of(stack, None)
        known = lines.setdefault((line.place, line.purpose), line)
        known.time += time
        if len(facts.device):
            known.waits = (known.waits or 0) + waits
    return lines


def _read_process(facts: StepScope) -> Lines:
    """Lines of a watched process: samples, and recorded calls without one."""
    host, calls = facts.timeline.host, {}
    for role, purpose in (*_PAUSES, *_PASSES):
        source = facts.host if role is Role.EVALUATION else facts.timeline  # without what trains
        rows = source.rows_of(role)
        rows = rows[is_among(host.thread[rows], facts.host.drivers)]
        calls[purpose] = union_of(host.start[rows], host.end[rows])
    lines, samples = _read_samples(facts, calls)
    rest = facts.scope - samples.spans
    inside = np.zeros(len(samples.time), dtype=bool)
    for purpose, called in calls.items():
        members = called.contains_times(samples.time) & ~inside
        inside |= members
        unseen = rest & called
        rest = rest - unseen
        if len(unseen):
            _share_out(lines, purpose, unseen, samples.select(members))
    return lines


class _Samples(NamedTuple):
    """Stack samples in the order of time, and their lines."""

    time: I64
    lines: list[StepLine]
    spans: Intervals  # the time that they represent

    def select(self, mask: Mask) -> _Samples:
        """Return some of the samples."""
        lines = [self.lines[i] for i in np.flatnonzero(mask)]
        return _Samples(self.time[mask], lines, self.spans)


def _read_samples(facts: StepScope, calls: dict[Purpose, Intervals]) -> tuple[Lines, _Samples]:
    """Lines with the time of their samples, and the samples."""
    timeline, host = facts.timeline, facts.timeline.host
    rows = np.flatnonzero((host.detail >= 0) & is_among(host.thread, facts.host.drivers))
    inside = facts.scope.length_inside(host.start[rows], host.end[rows])
    rows, inside = rows[inside > 0], inside[inside > 0]
    order = np.argsort(host.start[rows], kind="stable")
    rows, inside = rows[order], inside[order]
    called: list[Purpose | None] = [None] * len(rows)
    for _, purpose in reversed(_PAUSES):
        for i in np.flatnonzero(calls[purpose].contains_times(host.start[rows])):
            called[i] = purpose
    lines: Lines = {}
    shown = []
    read = _StackReader(timeline, facts.rank, np.unique(host.detail[rows]).tolist())
    for row, time, around in zip(rows.tolist(), inside.tolist(), called, strict=True):
        stack = timeline.details[host.detail[row]].stack
        line = read.line_of(stack, around) if stack else StepLine(None, around or Purpose.OTHER)
        known = lines.setdefault((line.place, line.purpose), line)
        known.time += time
        known.spans.append((int(host.start[row]), int(host.end[row])))
        shown.append(known)
    for line in lines.values():
        line.loop = None if line.loop in read.trained else line.loop  # the training loop itself
    return lines, _Samples(host.start[rows], shown, union_of(host.start[rows], host.end[rows]))


class _StackReader:
    """Reads what stacks show, each once."""

    def __init__(
        self, timeline: Timeline, rank: int | None, details: list[int] | None = None
    ) -> None:
        self._frames = FrameReader(timeline.vocabulary, rank)
        self._sources = timeline.sources
        if details is not None:  # not files that only ran at the start, such as imports
            files = own_files(timeline.details[detail].stack for detail in details)
            self._sources = {name: timeline.sources.get(name, "") for name in files}
        self._judged = judge_sources(timeline.sources)
        self._loops = {name: find_loops(text) for name, text in self._sources.items()}
        self._fixed = {name: find_fixed_lines(text) for name, text in self._sources.items()}
        self._known: dict[str, StepLine] = {}
        self.trained: set[Place | None] = set()
        """lines that lead to a backward pass or an optimizer"""

    def line_of(self, stack: str, called: Purpose | None) -> StepLine:
        """Return a line without time; ``called`` is the purpose of a recorded call around it."""
        if stack not in self._known:
            self._known[stack] = self._read(stack)
        line = self._known[stack]
        return replace(line, spans=[]) if called is None else StepLine(line.place, called)

    def _read(self, stack: str) -> StepLine:
        own = self._frames.own_places(stack)
        text = source_line(self._sources, own[0]) if own else ""
        found = self._frames.purpose_of(stack, text)
        if not own:
            return StepLine(None, found.purpose)
        if found.purpose in (Purpose.BACKWARD, Purpose.OPTIMIZER):
            self.trained.update(own)
        judged = own if self._judged else ()
        caller = next((place for place in judged if self._only_reports(place)), None)
        purpose = _OF_REPORTS.get(found.purpose, found.purpose) if caller else found.purpose
        by_trainer = False
        if caller is None and found.by_library and purpose in REPORTS:
            if self._frames.entered_library(stack) in REPORTS:
                caller = own[0] if self._is_unclear(own[0]) else None
            elif purpose is Purpose.LOGGING:
                caller, by_trainer = own[0], True
        rare = any(place.line in self._judge(place).rare for place in own)
        line = StepLine(own[0], purpose, caller, rare=rare, by_trainer=by_trainer)
        for place in own if caller is None and self._loops else ():
            loops = self._loops.get(place.file or "", LoopLines())
            if place.line in loops.environment:
                line.purpose = Purpose.SIMULATION
            layer = loops.recurrent.get(place.line or 0, "")
            if line.loop is None and (layer or place.line in loops.batchable):
                line.loop, line.layer = place, layer
            line.in_rollout |= place.line in loops.rollout
            fixed = self._fixed.get(place.file or "", FixedLines())
            if line.fixed is None and place.line in fixed.of_samples | fixed.of_epochs:
                line.fixed, line.for_samples = place, place.line in fixed.of_samples
        return line

    def _only_reports(self, place: Place) -> bool:
        return place.line in self._judge(place).reporting

    def _is_unclear(self, place: Place) -> bool:
        return place.line in self._judge(place).unknown

    def _judge(self, place: Place) -> NeededLines:
        return self._judged.get(place.file or "", NeededLines())


def _share_out(lines: Lines, purpose: Purpose, unseen: Intervals, samples: _Samples) -> None:
    """Give each piece of recorded calls without a sample to the line of the nearest sample in such
    a call. Where no call has one, the largest line of the purpose is assumed."""
    if len(samples.time):
        nearest = find_nearest(samples.time, unseen.start).tolist()
        given = [samples.lines[i] for i in nearest]
    else:
        known = [line for line in lines.values() if line.purpose is purpose]
        none = StepLine(None, purpose)
        largest = max(known, key=lambda line: line.time, default=none)
        given = [lines.setdefault((largest.place, purpose), largest)] * len(unseen)
    for line, start, end in zip(given, unseen.start.tolist(), unseen.end.tolist(), strict=True):
        line.time += end - start
        line.spans.append((start, end))


class StackTime(NamedTuple):
    """A stack, innermost frame first, and its time in the steps in scope, ns."""

    stack: str
    time: int
    waits: int  # time of it in which the device is idle


def traced_stacks(facts: StepScope) -> Iterator[StackTime]:
    """Yield the stacks of the thread with most recorded Python; none of a recording without."""
    host = facts.timeline.host
    rows = np.flatnonzero(host.kind == HostKind.PYTHON)
    rows = rows[np.isin(host.thread[rows], facts.host.drivers)]
    if not 0 < len(rows) <= MOST_CALLS:
        return
    threads, counts = np.unique(host.thread[rows], return_counts=True)
    rows = rows[host.thread[rows] == threads[np.argmax(counts)]]
    nesting = Nesting.nest_events(host.start[rows], host.end[rows])
    parents = _parents_of(nesting)
    paths, calls = _number_paths(nesting, parents, host.name[rows].astype(np.int64))
    begin, end, top = _stretches(facts, nesting)
    time = np.bincount(paths[top], weights=end - begin, minlength=len(calls))
    idle = facts.idle.length_inside(begin, end)
    waits = np.bincount(paths[top], weights=idle, minlength=len(calls))
    names, named, above = facts.timeline.names, host.name[rows].tolist(), parents.tolist()
    for path in np.flatnonzero(time):
        frames, call = [], int(calls[path])
        while call >= 0:
            frames.append(names[named[call]])
            call = above[call]
        yield StackTime(";".join(frames), int(time[path]), int(waits[path]))


def _parents_of(nesting: Nesting) -> I64:
    """The call around each call, or -1."""
    parents = np.full(len(nesting.start), -1, dtype=np.int64)
    for outer, inner in zip(nesting.levels, nesting.levels[1:], strict=False):
        index = np.searchsorted(nesting.start[outer], nesting.start[inner], side="right") - 1
        parents[inner] = outer[index]
    return parents


def _number_paths(nesting: Nesting, parents: I64, names: I64) -> tuple[I64, I64]:
    """A number per call, the same for equal stacks, and one call of each number."""
    paths = np.zeros(len(parents), dtype=np.int64)
    calls: list[I64] = []
    known, count = np.unique(names), 0
    for level in nesting.levels:
        above = np.where(parents[level] >= 0, paths[parents[level]], -1)
        pairs = above * len(names) + np.searchsorted(known, names[level])
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        paths[level] = count + inverse
        calls.append(level[first])
        count += len(first)
    return paths, np.concatenate(calls) if calls else np.empty(0, dtype=np.int64)


def _stretches(facts: StepScope, nesting: Nesting) -> tuple[I64, I64, I64]:
    """Times in scope in which one call is on top: begin, end and call."""
    scope = facts.host_scope
    edges = np.unique(np.concatenate([nesting.start, nesting.end, scope.start, scope.end]))
    begin, end = edges[:-1], edges[1:]
    inside = scope.contains_times(begin)
    begin, end = begin[inside], end[inside]
    top = nesting.innermost_at(begin)
    known = top >= 0
    return begin[known], end[known], top[known]
