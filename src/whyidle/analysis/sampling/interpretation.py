"""Interpretation of the stack samples of a watched process: what ran between its recorded calls.
Samples become Python events that last until the next sample; those inside the framework's modules
count as operators, which on a CPU are the work itself.

Lines of the user's program that keep the loss of every step: ``losses.append(loss)``. A loss
with its graph keeps all activations of its step alive. The stored source of the sampled files is
parsed, not run: a name with a ``.backward()`` call is a loss, and a line that appends or adds it
without ``.item()``, ``.detach()`` or ``float()`` keeps it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.analysis.sampling.gil_waits import (
    LeafFrames,
    SampledPython,
    find_locked_workers,
    find_python,
    find_taken_lock,
    subtract_wakeup,
)
from whyidle.analysis.sampling.sample_classification import classify_samples
from whyidle.analysis.sampling.sample_weighting import (
    PHASES,
    date_samples,
    make_looks,
    weigh_samples,
)
from whyidle.analysis.sampling.startup_and_tail import find_surroundings
from whyidle.analysis.sampling.thread_idleness import find_idle
from whyidle.model.cause import MOSTLY
from whyidle.model.frames import own_files
from whyidle.model.loader_tables import SAMPLE, Loading
from whyidle.model.process_facts import KeptLoss, LifePhases
from whyidle.model.roles import Role, Vocabulary
from whyidle.model.timeline import Detail, HostEvents, HostKind, Timeline

_ADDERS = ("append", "add", "appendleft", "extend", "insert")


def find_kept_losses(stacks: Iterable[str], sources: Mapping[str, str]) -> tuple[KeptLoss, ...]:
    """Return file, line, function and text of every such line in the files of ``stacks``."""
    named = (name for name in own_files(stacks) if name in sources)
    return tuple(loss for name in named for loss in _in_source(name, sources[name]))


def _in_source(name: str, text: str) -> Iterator[KeptLoss]:
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError):
        return
    losses = {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "backward"
        and isinstance(node.func.value, ast.Name)
    }
    lines = text.splitlines()
    for function, node in _function_statements(tree, "<module>"):
        if losses and _keeps_loss(node, losses):
            text = lines[node.lineno - 1].strip()[:120]
            yield KeptLoss(name, node.lineno, function, text)


def _function_statements(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.stmt):
            yield inner, node
        yield from _function_statements(node, inner)


def _keeps_loss(node: ast.stmt, losses: set[str]) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and _is_loss(node.value, losses)
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in _ADDERS and any(_is_loss(argument, losses) for argument in call.args)


def _is_loss(node: ast.expr, losses: set[str]) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return any(_is_loss(part, losses) for part in node.elts)
    return isinstance(node, ast.Name) and node.id in losses


GROWN: Final = 1.05
"""growth of the process's memory from which kept losses are searched for"""
BLOCKED: Final = "whyidle::blocked"
LOCKED: Final = "whyidle::locked"
UNSEEN: Final = "whyidle::python"
"""Python without a sampled line"""
_MEETING = (Role.COLLECTIVE_FLIGHT, Role.COLLECTIVE_WAIT, Role.BATCH_FROM_WORKERS)
"""in these a thread sleeps until other ranks, or a worker's batch, are there"""
FEWEST: Final = 5
"""least calls of a function that samples show inside evaluations"""
_LINE = re.compile(r"\(\d+\)")


def interpret_samples(timeline: Timeline) -> Timeline:
    """Return the process with its stack samples as host events and sample weights. Time around the
    training loop is cut off, and only its length recorded."""
    if timeline.stack_samples is None:
        return timeline
    samples, stacks = timeline.stack_samples.rows, list(timeline.stack_samples.stacks)
    gil_taken = find_taken_lock(samples)
    calls, names, threads = timeline.host, list(timeline.names), list(timeline.threads)
    ident = str(timeline.process.thread or 0)
    thread = threads.index(ident) if ident in threads else len(threads)
    surroundings = find_surroundings(timeline, samples, stacks, thread)
    if surroundings is not None:
        later = samples["time"] >= surroundings.begin
        samples, gil_taken = samples[later], gil_taken[later]
        inside = calls.take_rows(calls.start >= surroundings.begin)
        calls = inside.join(surroundings.host_events(names, thread))
        threads += [ident][: thread + 1 - len(threads)]
    reads = [row for row in timeline.process.memory if row[1]]
    grows = len(reads) > 1 and reads[-1][2] > GROWN * reads[0][2]
    samples = subtract_wakeup(samples, gil_taken)
    python = find_python(samples, gil_taken, stacks)
    process = replace(
        timeline,
        names=tuple(names),
        threads=tuple(threads),
        host=calls,
        phases=surroundings.phases if surroundings else LifePhases(),
        kept_losses=find_kept_losses(stacks, timeline.sources) if grows else (),
        loading=interpret_workers(timeline.loading, timeline.vocabulary),
        stack_samples=None,
    )
    return _add_samples(process, samples, stacks, python)


def _bounding_calls(timeline: Timeline, calls: HostEvents) -> HostEvents:
    """The calls that bound the phases of a step; also an evaluation without such a call, as its
    place is recorded each time. What runs on a device of its own is put on the thread that calls
    it: what that thread does meanwhile says nothing of the time without it."""
    phases = calls.take_rows(timeline.has_role(calls, *PHASES))
    pauses = calls.take_rows(timeline.has_role(calls, Role.EVALUATION))
    before, after = np.searchsorted(np.sort(phases.start), [pauses.start, pauses.end])
    phases = phases.join(pauses.take_rows(before == after))
    executed = calls.take_rows(timeline.has_role(calls, Role.EXECUTION))
    if not len(executed) or not len(phases):
        return phases
    home = np.bincount(phases.thread).argmax()
    return phases.join(replace(executed, thread=np.full_like(executed.thread, home)))


def _add_samples(
    timeline: Timeline, samples: NDArray[Any], stacks: list[str], python: SampledPython
) -> Timeline:
    calls, names = timeline.host, timeline.names
    phases = _bounding_calls(timeline, calls)
    order = np.argsort(samples["time"], kind="stable")
    samples, python = samples[order], python.take_rows(order)
    read = samples["time"] + samples["waited_us"] * 1000
    shown = samples["stack"]
    samples = date_samples(phases, samples, len(stacks), python.python)
    borrowed = samples["stack"] != shown
    python = python.with_borrowed_stacks(borrowed)
    order = np.argsort(samples["time"], kind="stable")
    samples, read, stacks = samples[order], read[order], [*stacks, ""]
    python, own_stack = python.take_rows(order), ~borrowed[order]
    leaf = [stack.split(";", 1)[0] or UNSEEN for stack in stacks]
    idle = find_idle(samples, read, calls.take_rows(timeline.has_role(calls, *_MEETING)))
    kinds, blocked, locked = classify_samples(
        timeline, samples, read, stacks, idle=idle, ran=python.python
    )
    rows, start, end = weigh_samples(phases, samples)
    weights = make_looks(phases, samples, spoken=(rows, end - start), found=python, own=own_stack)
    samples, kinds, blocked, locked = samples[rows], kinds[rows], blocked[rows], locked[rows]
    ended_here = python.after[rows] & ~blocked & ~locked
    frames = StackFrames([*names, *leaf])
    frames.add_samples(samples, start, end, stacks)
    sampled = samples["stack"] + len(names)
    sampled[blocked] = frames.number_of(BLOCKED)
    sampled[locked] = frames.number_of(LOCKED)
    begin, until, name, thread = np.array(frames.events, dtype=np.int64).reshape(-1, 4).T
    shown = samples["stack"] + len(stacks) * ended_here
    host = calls.join(
        HostEvents.from_columns(begin, until, kind=HostKind.PYTHON, name=name, thread=thread),
        HostEvents.from_columns(
            start, end, kind=kinds, name=sampled, thread=samples["thread"], detail=shown
        ),
    )
    details = [Detail(stack=stack, after=after) for after in (False, True) for stack in stacks]
    return with_evaluation_calls(
        replace(
            timeline, names=tuple(frames.names), details=tuple(details), host=host, looks=weights
        )
    )


def interpret_workers(loading: Loading, vocabulary: Vocabulary) -> Loading:
    """Return the loading with the samples and stacks of its workers inside batches."""
    stacks: list[str] = []
    tables, locked = [np.empty(0, SAMPLE)], [np.empty(0, bool)]
    for worker in loading.worker_samples:
        own = [_cut_inherited(stack, vocabulary) for stack in worker.samples.stacks]
        rows = worker.samples.rows
        leaf = [stack.split(";", 1)[0] for stack in own]
        frames = LeafFrames.match_lines(vocabulary, leaf)
        locked.append(find_locked_workers(rows, frames)[worker.inside])
        table = np.empty(int(worker.inside.sum()), SAMPLE)
        table["time"] = rows["time"][worker.inside]
        table["stack"] = rows["stack"][worker.inside] + len(stacks)
        tables.append(table)
        stacks += own
    all_locked = np.concatenate(locked)
    return replace(
        loading,
        samples=np.concatenate(tables),
        stacks=tuple(stacks),
        still=float(all_locked.mean()) if len(all_locked) else 0.0,
        worker_samples=(),
    )


def _cut_inherited(stack: str, vocabulary: Vocabulary) -> str:
    frames = stack.split(";")
    own = takewhile(lambda frame: not vocabulary.plays(Role.WORKER_ENTRY, frame), frames)
    return ";".join(own)


def with_evaluation_calls(timeline: Timeline) -> Timeline:
    """Return the process with an event around the calls of each evaluation between two steps."""
    host = timeline.host
    seen = timeline.rows_of(Role.EVALUATION)
    seen = seen[host.kind[seen] == HostKind.PYTHON]
    steps = timeline.rows_of(Role.OPTIMIZER)
    if not len(seen) or not len(timeline.rows_of(Role.EXECUTION)):
        return timeline
    home, begin = host.thread[seen[0]], np.sort(host.start[steps])
    calls = np.flatnonzero((host.kind == HostKind.OP) & (host.detail < 0) & (host.thread == home))
    calls = np.setdiff1d(calls, timeline.rows_of(Role.OPTIMIZER_OPERATORS))
    after = np.searchsorted(begin, host.start[calls])  # which step's call they follow
    inside = union_of(host.start[seen], host.end[seen]).contains_times(host.start[calls])
    names = [
        name
        for name in np.unique(host.name[calls[inside]])
        if inside[own := host.name[calls] == name].sum() >= FEWEST
        and len(np.unique(after[own])) < MOSTLY * len(begin)
    ]
    chosen = is_among(host.name[calls], names)
    calls, after = calls[chosen], after[chosen]
    if not len(calls):
        return timeline
    start, end = _windows_of(timeline, calls, after, begin)
    label = np.bincount(host.name[seen]).argmax()
    found = HostEvents.from_columns(start, end, kind=HostKind.PYTHON, name=label, thread=home)
    return replace(timeline, host=host.join(found))


def _windows_of(timeline: Timeline, calls: I64, after: I64, steps: I64) -> tuple[I64, I64]:
    """Begin and end of the calls between each two steps, with reads until the next batch."""
    host, reads = timeline.host, timeline.rows_of(Role.SYNC)
    first = np.unique(after, return_index=True)[1]
    start, end = host.start[calls[first]], np.maximum.reduceat(host.end[calls], first)
    bounds = np.sort(np.append(steps, host.start[timeline.rows_of(Role.LOADER)]))
    limit = np.append(bounds, np.iinfo(np.int64).max)[np.searchsorted(bounds, end)]
    last = np.searchsorted(host.start[reads], limit) - 1
    read_end = np.append(host.end[reads], 0)[last]  # before the first one there is none
    return start, np.maximum(end, read_end)


class StackFrames:
    """Converts samples to events of the functions around them, each lasting while it is on the
    stack of successive samples."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.events: list[tuple[int, int, int, int]] = []
        """begin, end, name, thread"""
        self._numbers: dict[str, int] = {}

    def number_of(self, text: str) -> int:
        """Return the number of a name, which is added if new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.names)
            self.names.append(text)
        return number

    def add_samples(self, samples: NDArray[Any], start: I64, end: I64, stacks: list[str]) -> None:
        """Add samples, with begin and end (ns) of the time that each represents."""
        for thread in np.unique(samples["thread"]):
            rows = np.flatnonzero(samples["thread"] == thread)
            columns = samples["stack"][rows], start[rows], end[rows]
            self._add_thread(int(thread), columns, stacks)

    def _add_thread(
        self, thread: int, columns: tuple[NDArray[Any], I64, I64], stacks: list[str]
    ) -> None:
        calls: dict[int, list[tuple[str, str]]] = {}
        open_: list[tuple[str, int, int]] = []  # function, begin, name
        before, last = -1, 0
        for number, begin, until in zip(*(column.tolist() for column in columns), strict=True):
            if number != before or begin != last:
                if number not in calls:
                    texts = stacks[number].split(";")[:0:-1]  # outermost first, no innermost one
                    calls[number] = [(_LINE.sub("", text, count=1), text) for text in texts]
                frames = calls[number]
                depth = _common_depth(open_, frames) if begin == last else 0
                self._close_frames(open_, depth, last, thread)
                open_ += [(name, begin, self.number_of(text)) for name, text in frames[depth:]]
            before, last = number, until
        self._close_frames(open_, 0, last, thread)

    def _close_frames(
        self, open_: list[tuple[str, int, int]], depth: int, end: int, thread: int
    ) -> None:
        for _, begin, name in open_[depth:]:
            self.events.append((begin, end, name, thread))
        del open_[depth:]


def _common_depth(open_: list[tuple[str, int, int]], frames: list[tuple[str, str]]) -> int:
    pairs = zip(open_, frames, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0][0] == pair[1][0], pairs))
