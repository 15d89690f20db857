"""Detection of steps and of the steady ones. The first method with a boundary pair wins: the
profiler's marks, a framework's annotations, optimizer steps, DataLoader calls, repeated CUDA
graphs, and last the repeated kernel sequence. A step on the device ends when its last launched work
has ended or when the host leaves it, whichever is later, as marks of a host that runs ahead end too
early."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.device.device_backlog import earlier_work
from whyidle.analysis.device.kernel_classes import classify_kernel
from whyidle.analysis.device.lost_kernels import find_incomplete
from whyidle.analysis.integer_codes import is_among, used_codes
from whyidle.analysis.partition.idle_gaps import link_launches
from whyidle.analysis.steps.recording_extent import host_extent, recording_extent
from whyidle.analysis.steps.serving_steps import serving_steps
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

AFTER = "after the last step"
WARMUP_FACTOR = 1.5
"""a leading step this many times longer than the median of the rest is warm-up"""
MOST_TURNS = 32
"""most optimizer calls that make one step"""
FEW = 3
"""with fewer steps all are needed"""
PERIODIC = 0.9
"""share of the graphs, or of compiled calls, that repeat those of a period before"""
ASIDE = 0.01
"""marks with less of the time and of the work than this are a profiler's turn, not the program's"""
FRAY = 0.2
"""a first or last step this much longer than the inner ones may be an artefact of recording"""


@dataclass(frozen=True, slots=True, eq=False)
class StepWindows:
    """Step windows of one rank, ns. ``steady`` marks those that count. ``found_by`` is None if no
    boundary was found: then one window covers the recording."""

    start: I64
    end: I64
    labels: tuple[str, ...]
    steady: Mask
    found_by: str | None
    confidence: float
    host: tuple[I64, I64] | None = None
    """starts and ends on the host; None if steps are known by the device alone"""
    disturbed: Mask | None = None
    """steps that measuring itself slowed; None: none"""
    incomplete: Mask | None = None
    """steps whose kernels are missing from the recording; None: none"""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def left_out(self) -> int:
        """Number of steps that do not count because measuring itself slowed them, or because their
        kernels are missing."""
        unusable = np.zeros(len(self), dtype=bool)
        for mask in (self.disturbed, self.incomplete):
            unusable |= False if mask is None else mask
        return int((unusable & ~self.steady).sum())

    @property
    def warm_up_count(self) -> int:
        """Number of slow steps at the start; 0 if kernels of the first are missing."""
        if self.incomplete is not None and self.incomplete[0]:
            return 0
        return int(np.argmax(self.steady))

    @property
    def window(self) -> tuple[int, int]:
        """First start and last end, ns."""
        return int(self.start[0]), int(self.end[-1])

    @property
    def on_host(self) -> tuple[I64, I64]:
        """Starts and ends of the steps on the host, ns."""
        return self.host or (self.start, self.end)

    @property
    def seconds(self) -> F64:
        """Length of the steady steps, s."""
        return (self.end - self.start)[self.steady] / 1e9


@dataclass(frozen=True, slots=True)
class _StepMarks:
    edges: I64
    labels: tuple[str, ...]
    found_by: str
    confidence: float
    device: bool = False
    """the edges are times on the device"""


def find_steps(timeline: Timeline) -> StepWindows:
    """Return the steps of a recording; without a boundary one without ``found_by``."""
    methods = (_by_hand, _profiler_marks, _framework_marks, _optimizer_marks, _loader_marks)
    for method in (*methods, _backward_marks, _graph_marks, _compiled_marks, _repetition_marks):
        marks = method(timeline)
        if marks is None:
            continue
        edges = marks.edges
        start, end, alike = _on_device(timeline, marks)
        if (end > start).all():
            steady = _find_steady(timeline, start, end)
            steady[0] &= alike or len(steady) < FEW
            disturbed = _find_disturbed(timeline, edges[:-1], edges[1:])
            incomplete = None if marks.device else find_incomplete(timeline, edges[:-1], edges[1:])
            for unusable in (disturbed, incomplete):
                if unusable is not None and (steady & ~unusable).any():
                    steady &= ~unusable
            host = None if marks.device else (edges[:-1], edges[1:])
            known = marks.labels, steady, marks.found_by, marks.confidence
            return _with_end(timeline, StepWindows(start, end, *known, host, disturbed, incomplete))
    low, high = recording_extent(timeline)
    if (earlier := earlier_work(timeline, link_launches(timeline), low)) and earlier.until < high:
        low = earlier.until
    window = np.array([low]), np.array([max(high, low + 1)])
    return StepWindows(*window, ("whole recording",), np.array([True]), None, 0.0)


def _with_end(timeline: Timeline, steps: StepWindows) -> StepWindows:
    """Append the wait after the last step as a window that is never steady."""
    rows = _rows_matching(timeline, Role.AFTER)
    if not len(rows):
        return steps
    low = max(steps.window[1], int(timeline.host.start[rows[0]]))
    high = max(low + 1, int(timeline.host.end[rows[0]]))
    starts, ends = steps.on_host
    return replace(
        steps,
        start=np.append(steps.start, low),
        end=np.append(steps.end, high),
        labels=(*steps.labels, AFTER),
        steady=np.append(steps.steady, False),
        disturbed=None if steps.disturbed is None else np.append(steps.disturbed, False),
        incomplete=None if steps.incomplete is None else np.append(steps.incomplete, False),
        host=(np.append(starts, low), np.append(ends, high)),
    )


def _rows_matching(timeline: Timeline, role: Role) -> I64:
    rows = timeline.rows_of(role)
    return rows[timeline.host.kind[rows] == HostKind.ANNOTATION]


def _profiler_marks(timeline: Timeline) -> _StepMarks | None:
    host = timeline.host
    rows = _rows_matching(timeline, Role.PROFILER_STEP)
    rows = rows[np.append(np.diff(host.start[rows]) > 0, True)] if len(rows) else rows
    if not len(rows):
        return None
    start, end = host.start[rows], host.end[rows]
    if len(rows) > 1 and not _begun_in(timeline, int(start[-1]), int(end[-1])).any():
        rows, start, end = rows[:-1], start[:-1], end[:-1]  # opened by the call that ended the last
    if _is_aside(timeline, int(start[0]), int(end[-1])):
        return None
    labels = tuple(timeline.names[i] for i in host.name[rows])
    edges = np.concatenate([start, [max(int(end[-1]), int(start[-1]) + 1)]])
    found_by = "ProfilerStep" if timeline.framework == "pytorch" else "the profiler's step marks"
    return _StepMarks(edges, labels, found_by, 1.0)


def _begun_in(timeline: Timeline, low: int, high: int) -> Mask:
    """Whether each operator, runtime call and device event begins in a window."""
    host = timeline.host
    calls = is_among(host.kind, (HostKind.OP, HostKind.RUNTIME))
    begun = np.concatenate([host.start[calls], timeline.device.start])
    return np.asarray((begun >= low) & (begun < high))


def _is_aside(timeline: Timeline, low: int, high: int) -> bool:
    """Whether all marks together hold next to nothing of the recording, neither time nor work."""
    begin, end = host_extent(timeline)
    inside = _begun_in(timeline, low, high)
    return high - low < ASIDE * (end - begin) and inside.sum() < ASIDE * len(inside)


def _framework_marks(timeline: Timeline) -> _StepMarks | None:
    marks = [_rows_matching(timeline, Role.TRAINING_STEP), serving_steps(timeline)[1]]
    rows = _outermost_rows(timeline, np.union1d(*marks))
    return _from_starts(timeline, rows, "framework annotation", 0.9)


def _outermost_rows(timeline: Timeline, rows: I64) -> I64:
    """Rows that lie in no other: a trainer marks a step, and its parts again."""
    host, kept = timeline.host, []
    for thread in used_codes(host.thread[rows]):
        own = rows[host.thread[rows] == thread]
        before = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, host.end[own][:-1]))
        kept.append(own[host.start[own] >= before])
    return np.sort(np.concatenate(kept)) if kept else rows


def _optimizer_marks(timeline: Timeline) -> _StepMarks | None:
    executed = timeline.rows_of(Role.EXECUTION)  # of which a host that runs ahead calls many
    rows = executed if len(executed) else _rows_matching(timeline, Role.OPTIMIZER)
    host = timeline.host
    if len(rows) < 2:
        return None
    low, high = host_extent(timeline)
    cycle = _per_step(rows, host.name[rows])
    names = host.name[np.sort(rows)]
    if len(executed) and (names[cycle:] == names[:-cycle]).mean() < PERIODIC:
        return None  # operators that are called one by one
    ends = host.end[rows][cycle - 1 :: cycle]
    edges = np.unique(np.concatenate([[low], ends]))
    # a watched run covers the whole process, so that nothing after the last step is a step
    watched = timeline.source.format == "probe"
    if not watched and len(edges) > 2 and high - edges[-1] > 0.5 * np.median(np.diff(edges)):
        edges = np.append(edges, high)
    return _labelled_marks(edges, "compiled step" if len(executed) else "optimizer", 0.85)


def _by_hand(timeline: Timeline) -> _StepMarks | None:
    """The user's own marks, one at the end of each step."""
    rows = _rows_matching(timeline, Role.STEP_MARKED)
    if len(rows) < 2:
        return None
    low = host_extent(timeline)[0]
    edges = np.unique(np.concatenate([[low], timeline.host.end[rows]]))
    return _labelled_marks(edges, "whyidle.step", 1.0)


def _backward_marks(timeline: Timeline) -> _StepMarks | None:
    host = timeline.host
    rows = timeline.rows_of(Role.BACKWARD)
    if len(rows) < 3:
        return None
    edges = np.concatenate([[host_extent(timeline)[0]], host.end[rows]])
    return _labelled_marks(np.unique(edges), "backward", 0.5)


def _loader_marks(timeline: Timeline) -> _StepMarks | None:
    rows = _rows_matching(timeline, Role.BATCH_REQUEST)
    return _from_starts(timeline, rows, "DataLoader", 0.7) if len(rows) >= 3 else None


def _repetition_marks(timeline: Timeline) -> _StepMarks | None:
    """Repetitions of the kernel sequence with an update; repeated layers are no steps."""
    device = timeline.device
    kernels = device.take_rows(device.kind == DeviceKind.KERNEL)
    if len(kernels) < 12:
        return None
    groups = {i: classify_kernel(timeline.names[i]).group for i in used_codes(kernels.name)}
    update = np.array([groups[i] == "optimizer" for i in kernels.name])
    if not update.any():
        return None
    opens = np.flatnonzero(update[1:] & ~update[:-1]) + 1
    closes = np.flatnonzero(update[:-1] & ~update[1:]) + 1
    if len(closes) < 3 or len(opens) < 3:
        return None
    lengths = np.diff(closes)
    if np.ptp(lengths) > 0.02 * lengths.mean():
        return None
    last = [kernels.end[-1]] if update[-1] else []
    edges = np.unique(np.concatenate([[kernels.start[0]], kernels.end[closes - 1], last]))
    marks = _labelled_marks(edges, "repetition of the kernel sequence", 0.5)
    return replace(marks, device=True)


def _graph_marks(timeline: Timeline) -> _StepMarks | None:
    """Periods of the launches of CUDA graphs, told apart by their numbers of kernels. A server
    replays one graph, or one per piece of the model, for every step."""
    host, rows = timeline.host, timeline.rows_of(Role.GRAPH_LAUNCH)
    if len(rows) < FEW:
        return None
    ids, kernels = np.unique(timeline.device.corr, return_counts=True)
    at = np.minimum(np.searchsorted(ids, host.corr[rows]), max(len(ids) - 1, 0))
    if not len(ids):
        return None
    sizes = np.where(ids[at] == host.corr[rows], kernels[at], 0).astype(np.int32)
    cycle = _per_step(rows, sizes)
    if len(rows) < FEW * cycle or (sizes[cycle:] == sizes[:-cycle]).mean() < PERIODIC:
        return None
    return _from_starts(timeline, rows[::cycle], "repeated CUDA graphs", 0.6)


def _compiled_marks(timeline: Timeline) -> _StepMarks | None:
    """Periods of the calls of compiled graphs: a model that denoises or decodes runs the same ones
    in each step."""
    rows = timeline.rows_of(Role.COMPILED_CALL)
    cycle = _per_step(rows, timeline.host.name[rows])
    if len(rows) < FEW * cycle:
        return None
    return _from_starts(timeline, rows[::cycle], "repeated calls of compiled graphs", 0.6)


def _per_step(rows: I64, names: NDArray[np.int32]) -> int:
    """Optimizer calls per step: the shortest period with which their names repeat best."""
    order = names[np.argsort(rows, kind="stable")]
    periods = range(1, min(MOST_TURNS, len(order) // 2) + 1)
    fits = [float(np.mean(order[p:] == order[:-p])) for p in periods]
    best = max(fits, default=1.0)
    return next((p for p, fit in zip(periods, fits, strict=True) if fit >= best - 0.02), 1)


def _from_starts(
    timeline: Timeline, rows: I64, found_by: str, confidence: float
) -> _StepMarks | None:
    if not len(rows):
        return None
    starts = np.unique(timeline.host.start[rows])
    edges = np.append(starts, max(host_extent(timeline)[1], int(starts[-1]) + 1))
    return _labelled_marks(edges, found_by, confidence)


def _labelled_marks(edges: I64, found_by: str, confidence: float) -> _StepMarks:
    labels = tuple(f"step {i + 1}" for i in range(len(edges) - 1))
    return _StepMarks(edges.astype(np.int64), labels, found_by, confidence)


def _on_device(timeline: Timeline, marks: _StepMarks) -> tuple[I64, I64, bool]:
    """Windows that follow the device, and whether the first one is like the others."""
    device = timeline.device
    edges = marks.edges
    if marks.device:
        return edges[:-1], edges[1:], True
    ends = edges[1:].copy()
    launched = _launch_times(timeline)
    known = launched >= 0
    if known.any():
        step = np.searchsorted(edges, launched, side="right") - 1
        inside = known & (step >= 0) & (step < len(ends))
        np.maximum.at(ends, step[inside], device.end[inside])
    elif len(device):
        ends[-1] = max(ends[-1], int(device.end.max()))
    ends = np.maximum.accumulate(ends)
    begin, is_like_others = _first_step_begin(timeline, launched, int(edges[0]), int(ends[0]))
    return np.concatenate([[begin], ends[:-1]]), ends, is_like_others


def _first_step_begin(timeline: Timeline, launched: I64, low: int, high: int) -> tuple[int, bool]:
    """When the device reaches the first step, and whether that step is like the others."""
    before = (launched >= 0) & (launched < low)
    if before.any():
        return max(low, min(int(timeline.device.end[before].max()), high - 1)), True
    earlier = earlier_work(timeline, link_launches(timeline), low)
    if earlier is None or earlier.until >= high:
        return low, True
    return earlier.until, not earlier.waited


def _launch_times(timeline: Timeline) -> I64:
    linked = link_launches(timeline)
    if not linked.has_launch.any():
        return np.full(len(timeline.device), -1, dtype=np.int64)
    return np.where(linked.has_launch, timeline.host.start[np.maximum(linked.call, 0)], -1)


def _find_steady(timeline: Timeline, start: I64, end: I64) -> Mask:
    length = (end - start).astype(np.float64)
    steady = np.ones(len(length), dtype=bool)
    if len(length) == 2 and length.max() > 3 * length.min():
        begins = timeline.device.start
        empty = (np.searchsorted(begins, end) - np.searchsorted(begins, start)).min() == 0
        steady[int(np.argmin(length) if empty else np.argmax(length))] = False
    if len(length) < 3:
        return steady
    for i in range(len(length) - 2):
        if length[i] <= WARMUP_FACTOR * np.median(length[i + 1 :]):
            break
        steady[i] = False
    if length[-1] < 0.3 * np.median(length[steady]):
        steady[-1] = False
    return steady & ~_find_frayed(timeline, start, end)


def _find_disturbed(timeline: Timeline, start: I64, end: I64) -> Mask | None:
    if not timeline.disturbed:
        return None
    disturbed = np.zeros(len(start), dtype=bool)
    for begin, until in timeline.disturbed:
        disturbed |= (start < until) & (end > begin)
    return disturbed


def _find_frayed(timeline: Timeline, start: I64, end: I64) -> Mask:
    """A first or last step that is long only because the recording begins or ends in it."""
    frayed = np.zeros(len(start), dtype=bool)
    if not len(timeline.device):
        return frayed
    length = (end - start).astype(np.float64)
    inner = np.median(length[1:-1])
    head = int(timeline.device.start.min()) - int(start[0])
    tail = int(end[-1]) - int(timeline.device.end.max())
    for step, idle in ((0, head), (-1, tail)):
        excess = length[step] - inner
        frayed[step] = excess > FRAY * inner and idle > excess / 2
    return frayed
