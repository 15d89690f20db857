"""Activity of the host threads that feed the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import dropwhile

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.device.device_timestamps import read_progress
from whyidle.analysis.device.kernel_classes import classify_kernel
from whyidle.analysis.integer_codes import is_among, map_names, used_codes
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.needed_lines import NeededLines, judge_sources
from whyidle.analysis.lines.source_lines import frame_place, in_library, own_frame
from whyidle.analysis.lines.source_statements import parse_source
from whyidle.analysis.partition.idle_gaps import Launches, copy_direction
from whyidle.analysis.partition.nesting import is_leaf
from whyidle.analysis.steps.step_detection import StepWindows
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

_TAKES = re.compile(
    r"(^|/)(queue\.py\(\d+\): get|multiprocessing/(queues\.py\(\d+\): get|"
    r"connection\.py\(\d+\): (recv|recv_bytes|recv_bytes_into|poll|wait)|"
    r"pool\.py\(\d+\): (next|get|wait|map|starmap|apply))|concurrent/futures/"
    r"_base\.py\(\d+\): (result|result_iterator|as_completed|wait))$"
)
"""standard library functions that return once another process or thread has done its part"""
_LINE = re.compile(r"\(\d+\)")
_MANAGER = "contextmanager"
Functions = dict[tuple[str, str], list[tuple[int, int]]]


class GeneratorCalls:
    """The user's generators in a process's stack samples. One in which the optimizer steps is the
    training loop itself; one that a model calls is a part of the model."""

    def __init__(self, timeline: Timeline) -> None:
        host = timeline.host
        self._functions = _generators_in(timeline.sources)
        self._vocabulary = timeline.vocabulary
        self.rows: I64 = np.empty(0, np.int64)
        """stack samples inside generators that batches are taken from"""
        if not self._functions:
            return
        rows = np.flatnonzero((host.detail >= 0) & (host.kind != HostKind.ANNOTATION))
        details = host.detail[rows]
        found = {int(one): self._find(timeline.details[one].stack) for one in np.unique(details)}
        steps = timeline.rows_of(Role.OPTIMIZER_CALL)
        updating = union_of(host.start[steps], host.end[steps]).contains_times(host.start[rows])
        training = {found[int(one)][0] for one in details[updating]}
        taken = [found[int(one)][0] not in {None, *training} for one in details]
        self.rows = rows[np.array(taken, dtype=bool)]

    def inner_frames(self, stack: str) -> str:
        """Return the frames of a stack up to its generator; empty if it is in none."""
        name, depth = self._find(stack)
        return ";".join(stack.split(";")[: depth + 1]) if name else ""

    def _find(self, stack: str) -> tuple[tuple[str, str] | None, int]:
        """The innermost generator of a stack that no model calls, and the number of its frame."""
        frames = stack.split(";")
        for depth, frame in enumerate(frames):
            place = frame_place(frame, None)
            if place is None or place.line is None:
                continue
            name = place.file or "", place.function or ""
            if any(low <= place.line <= high for low, high in self._functions.get(name, ())):
                plays, outer = self._vocabulary.plays, frames[depth + 1 :]
                modelled = any(plays(Role.COMPUTE_FRAME, caller) for caller in outer)
                return (None if modelled else name), depth
        return None, 0


def _generators_in(sources: Mapping[str, str]) -> Functions:
    found: Functions = {}
    for file, text in sources.items():
        if "yield" in text:
            for node in _generator_functions(text):
                lines = node.lineno, node.end_lineno or node.lineno
                found.setdefault((file, node.name), []).append(lines)
    return found


def _generator_functions(text: str) -> Iterator[ast.FunctionDef]:
    tree = parse_source(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and _yields(node):
            managed = any(_MANAGER in ast.unparse(one) for one in node.decorator_list)
            if not managed:
                yield node


def _yields(function: ast.FunctionDef) -> bool:
    """Whether the function itself yields, rather than one inside it."""
    nodes: list[ast.AST] = [*function.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            nodes += ast.iter_child_nodes(node)
    return False


def finishing_waits(timeline: Timeline) -> I64:
    """Return the rows of waits in a saving function, right after its save."""
    host, waits = timeline.host, timeline.rows_of(Role.BLOCKED)
    saves = timeline.rows_of(Role.CHECKPOINT)
    saves = saves[host.kind[saves] != HostKind.PYTHON]
    if not len(waits) or not len(saves):
        return np.empty(0, np.int64)
    inside = union_of(host.start[saves], host.end[saves]).contains_times(host.start)
    samples = np.flatnonzero(inside & (host.detail >= 0) & np.isin(host.thread, host.thread[saves]))
    writers = {_function_of(timeline, row) for row in samples} - {""}
    by_writers = [_function_of(timeline, row) in writers for row in waits]
    return waits[np.array(by_writers) & _follow_save(timeline, saves, waits)]


def _follow_save(timeline: Timeline, saves: I64, waits: I64) -> Mask:
    """Whether the last recorded call on a wait's thread was a finished save."""
    host, follows = timeline.host, np.zeros(len(waits), dtype=bool)
    calls = np.flatnonzero((host.detail < 0) & (host.kind != HostKind.PYTHON))
    calls = np.setdiff1d(calls, timeline.rows_of(Role.GC))
    for thread in np.unique(host.thread[saves]):
        own = calls[host.thread[calls] == thread]
        own_waits = host.thread[waits] == thread
        latest = np.searchsorted(host.start[own], host.start[waits[own_waits]], side="left") - 1
        call = own[np.maximum(latest, 0)]
        finished = host.end[call] <= host.start[waits[own_waits]]
        follows[own_waits] = (latest >= 0) & np.isin(call, saves) & finished
    return follows


def _function_of(timeline: Timeline, row: np.int64) -> str:
    stack = timeline.details[timeline.host.detail[row]].stack
    return _LINE.sub("", own_frame(stack), count=1)


def _is_taking(stack: str) -> bool:
    called = ""
    for frame in stack.split(";"):
        place = frame_place(frame, None)
        if place is not None and not in_library(place):
            return bool(_TAKES.search(called.strip()))
        called = frame
    return False


class HostActivity:
    """Activity of the threads that feed the device, as interval sets."""

    def __init__(self, timeline: Timeline, linked: Launches) -> None:
        self.timeline = timeline
        self.linked = linked
        self.drivers = driver_threads(timeline, linked)
        self.direction = copy_direction(timeline)
        self.collective = collective_kernels(timeline)
        self.progress = read_progress(timeline)

    def rows_of(self, role: Role) -> I64:
        """Return the rows of a role on the driving threads."""
        rows = self._producer_waits if role == Role.PRODUCER else self.timeline.rows_of(role)
        if role == Role.CHECKPOINT:
            rows = np.union1d(rows, finishing_waits(self.timeline))
        elif role == Role.PREPROCESS:
            rows = np.union1d(rows, self.generators.rows)
        elif role == Role.EVALUATION and len(self._trained_on):
            begin, end = self.timeline.host.start[rows], self.timeline.host.end[rows]
            named = self.timeline.host.kind[rows] == HostKind.PYTHON
            inside = np.searchsorted(self._trained_on, (begin, end))
            rows = rows[~named | (inside[0] == inside[1])]
        rows = rows[is_among(self.timeline.host.thread[rows], self.drivers)]
        return rows[~self._launches_kernels(rows)] if role == Role.PREPROCESS else rows

    @cached_property
    def generators(self) -> GeneratorCalls:
        """Generators of the user's that batches are taken from."""
        return GeneratorCalls(self.timeline)

    @cached_property
    def _producer_waits(self) -> I64:
        """Waits in a function that returns what others made, called by the user's own code."""
        rows, host = self.timeline.rows_of(Role.BLOCKED), self.timeline.host
        stacks = (self.timeline.details[host.detail[row]].stack for row in rows)
        return rows[np.array([_is_taking(stack) for stack in stacks], dtype=bool)]

    @cached_property
    def _trained_on(self) -> I64:
        """Times of samples in functions named like evaluations that each training step calls and
        whose results it needs, by the source: a policy's ``evaluate`` gives the loss."""
        host, judged = self.timeline.host, judge_sources(self.timeline.sources)
        stacks = (detail.stack for detail in self.timeline.details)
        details = [i for i, stack in enumerate(stacks) if self._is_trained_on(stack, judged)]
        return np.sort(host.start[np.isin(host.detail, details)])

    def _is_trained_on(self, stack: str, judged: Mapping[str, NeededLines]) -> bool:
        plays, frames = self.timeline.vocabulary.plays, stack.split(";")
        _, *around = *dropwhile(lambda frame: not plays(Role.EVALUATION, frame), frames), ""
        callers = (place for frame in around if (place := frame_place(frame, None)))
        caller = next((place for place in callers if not in_library(place)), None)
        lines = judged.get(caller.file or "" if caller else "", NeededLines())
        return caller is not None and caller.line in lines.needed - lines.rare

    def _launches_kernels(self, rows: I64) -> Mask:
        """Which events launch kernels; a function that does is no preprocessing on the CPU."""
        host, device = self.timeline.host, self.timeline.device
        calls = self.linked.call[device.kind == DeviceKind.KERNEL]
        calls = calls[calls >= 0]
        launches = np.zeros(len(rows), dtype=bool)
        for thread in self.drivers:
            own = host.thread[rows] == thread
            times = np.sort(host.start[calls[host.thread[calls] == thread]])
            first, last = host.start[rows[own]], host.end[rows[own]]
            launches[own] = np.searchsorted(times, last) > np.searchsorted(times, first)
        return launches

    def time_in(self, role: Role) -> Intervals:
        """Return when any driving thread was inside an event of a role."""
        rows = self.rows_of(role)
        return union_of(self.timeline.host.start[rows], self.timeline.host.end[rows])

    def innermost_time(self, kinds: tuple[HostKind, ...], least: int = 0) -> Intervals:
        """Return when a driving thread was in an innermost event of ``kinds`` of ``least`` ns."""
        host, rows = self.timeline.host, self.innermost_rows(kinds, least)
        return union_of(host.start[rows], host.end[rows])

    def innermost_rows(self, kinds: tuple[HostKind, ...], least: int = 0) -> I64:
        """Return the innermost events of driving threads of ``kinds`` and at least ``least`` ns."""
        host, rows = self.timeline.host, self._innermost_rows
        return rows[is_among(host.kind[rows], kinds) & (host.end[rows] - host.start[rows] >= least)]

    @cached_property
    def _innermost_rows(self) -> I64:
        host, parts = self.timeline.host, [np.empty(0, np.int64)]
        for thread in self.drivers:
            rows = np.flatnonzero((host.thread == thread) & (host.kind != HostKind.ANNOTATION))
            parts.append(rows[is_leaf(host.start[rows], host.end[rows])])
        return np.concatenate(parts)


def driver_threads(timeline: Timeline, linked: Launches) -> NDArray[np.int16]:
    """Return the threads that launch device work or carry step marks; all without either."""
    host = timeline.host
    calls = linked.call[linked.has_launch]
    threads, counts = np.unique(host.thread[calls], return_counts=True)
    drivers = set(threads[counts >= 0.01 * max(counts.sum(), 1)].tolist())
    for role in (Role.PROFILER_STEP, Role.TRAINING_STEP, Role.OPTIMIZER_CALL):
        drivers |= set(used_codes(host.thread[timeline.rows_of(role)]).tolist())
    if not drivers:
        ops = host.thread[(host.kind == HostKind.OP) | (host.kind == HostKind.RUNTIME)]
        frames = host.thread[host.kind == HostKind.PYTHON]  # of one that only ever waited
        drivers = set(used_codes(ops if len(ops) else frames).tolist())
    return np.array(sorted(drivers), dtype=np.int16)


def collective_kernels(timeline: Timeline) -> Mask:
    """Return whether each device event is a kernel of a collective: by its name, or an unknown name
    on a stream that mostly runs collectives and computes nothing, beside a stream that does."""
    device = timeline.device
    groups = map_names(timeline.names, device.name, lambda name: classify_kernel(name).group, "U16")
    kernels = device.kind == DeviceKind.KERNEL
    sent = (groups == "communication") & kernels
    unknown = (groups == "other") & kernels
    if sent.any() and unknown.any():
        stream = device.device.astype(np.int64) * (1 << 32) + device.stream
        working = stream[kernels & ~sent & ~unknown]
        for own in np.setdiff1d(stream[unknown & np.isin(stream, stream[sent])], working):
            here = (stream == own) & kernels
            length = np.where(here, device.end - device.start, 0)
            if len(working) and length[sent].sum() * 2 > length.sum():
                sent |= here
    return np.asarray(sent)


def interrupting_rows(host: HostActivity, steps: StepWindows, role: Role) -> I64:
    """Return the rows of a role that interrupt steps as the host passes them. An event that spans a
    whole step is the loop itself (a script whose main function is ``evaluate``). Where steps run
    beside the host, it is one that calls a step."""
    rows, events = host.rows_of(role), host.timeline.host
    begin, end = events.start[rows], events.end[rows]
    if len(host.timeline.rows_of(Role.EXECUTION)):
        calls = np.sort(events.start[host.timeline.rows_of(Role.OPTIMIZER)])
        return rows[np.searchsorted(calls, begin) == np.searchsorted(calls, end)]
    starts, ends = steps.on_host
    first = np.searchsorted(starts, begin, side="left")
    spans_step = ends[np.minimum(first, len(steps) - 1)] <= end
    return rows[~((first < len(steps)) & spans_step)]
