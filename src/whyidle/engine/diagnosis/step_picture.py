"""A typical steady step as lanes of bars: what the host did, what each stream ran, what was lost.

A picture is for the eye: lanes hold a bounded number of bars. Where there are more, neighbours
too short to be told apart are drawn as one, and ``dropped`` says how many bars that hides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.nesting import Nesting
from whyidle.model.buckets import BUCKETS, REASONS
from whyidle.model.picture import Lane, Picture, Slice
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

I64 = NDArray[np.int64]
Kind = Literal["host", "device", "gap"]

BARS = 300
"""bars of at least this part of the window's length stay single; shorter ones are joined when a
lane has more bars than this"""
THREADS = 2
STREAMS = 5
LONG_OP = 10
LONG_FRAME = 40
"""an operator longer than a 10th of the window, a Python frame longer than a 40th, is opened up:
what it called is drawn instead, and itself only where it called nothing"""
LABEL_CHARS = 80


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Disjoint bars sorted by start, ns; ``label`` and ``group`` index lists of texts."""

    start: I64
    end: I64
    label: I64
    group: I64

    def take_rows(self, rows: NDArray[np.generic]) -> Bars:
        """The same columns for some rows."""
        return Bars(self.start[rows], self.end[rows], self.label[rows], self.group[rows])

    def clip_bars(self, low: int, high: int) -> Bars:
        """The part inside ``[low, high)``."""
        start, end = np.clip(self.start, low, high), np.clip(self.end, low, high)
        return Bars(start, end, self.label, self.group).take_rows(end > start)


def draw_step(facts: Facts) -> Picture | None:
    """The step in scope whose length is nearest to the median, or None where nothing is known."""
    step = typical_step(facts)
    low, high = int(facts.steps.start[step]), int(facts.steps.end[step])
    if high <= low:
        return None
    window = _Window(facts, low, high)
    lanes = [_lost_time_lane(window), *_stream_lanes(window), *_thread_lanes(window)]
    return Picture(
        rank=facts.rank,
        step=facts.steps.labels[step],
        duration_s=round((high - low) / 1e9, 9),
        lanes=[lane for lane in lanes if lane.slices],
    )


def typical_step(facts: Facts) -> int:
    """The index of a step of median length."""
    chosen = np.flatnonzero(facts.steps_in_scope)
    length = (facts.steps.end - facts.steps.start)[chosen]
    middle = np.sort(length)[len(length) // 2]
    return int(chosen[np.argmin(np.abs(length - middle))])


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The texts that bars index, and ``say``, which makes a label short."""

    labels: Sequence[str]
    groups: Sequence[str]
    say: Callable[[str], str] = str


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    facts: Facts
    low: int
    high: int

    @property
    def length_ns(self) -> int:
        return self.high - self.low

    def make_lane(self, name: str, kind: Kind, bars: Bars, texts: LabelTable) -> Lane:
        """A bounded lane of bars."""
        bars = bars.clip_bars(self.low, self.high)
        shown, members, work = join_short_bars(bars, max(1, self.length_ns // BARS))
        slices = [
            Slice(
                start_s=round(int(shown.start[i] - self.low) / 1e9, 9),
                duration_s=round(int(shown.end[i] - shown.start[i]) / 1e9, 9),
                label=texts.say(texts.labels[shown.label[i]]),
                group=texts.groups[shown.group[i]],
                members=int(members[i]),
                filled=round(min(1.0, int(work[i]) / int(shown.end[i] - shown.start[i])), 3),
            )
            for i in range(len(shown.start))
        ]
        return Lane(name=name, kind=kind, slices=slices, dropped=len(bars.start) - len(slices))


def join_short_bars(bars: Bars, width: int) -> tuple[Bars, I64, I64]:
    """Draw bars shorter than ``width`` that start in the same cell of ``width`` as one.

    Returns:
        The bars (with label and group of the longest member), the number of members of each,
        and the summed length of the members, ns.
    """
    count, length = len(bars.start), bars.end - bars.start
    alone = np.ones(count, dtype=np.int64)
    if count <= BARS:
        return bars, alone, length
    cell = (bars.start - bars.start[0]) // width
    tiny = length < width
    new = np.ones(count, dtype=bool)
    new[1:] = ~(tiny[1:] & tiny[:-1] & (cell[1:] == cell[:-1]))
    first = np.flatnonzero(new)
    last = np.append(first[1:], count) - 1
    run = np.cumsum(new) - 1
    order = np.lexsort((-length, run))
    longest = order[np.searchsorted(run[order], np.arange(len(first)))]
    shown = Bars(bars.start[first], bars.end[last], bars.label[longest], bars.group[longest])
    return shown, last - first + 1, np.add.reduceat(length, first)


# -- lost time --------------------------------------------------------------------------------


def _lost_time_lane(window: _Window) -> Lane:
    """Every stretch of the step that is not useful compute, by what is to blame."""
    names = list(REASONS)
    parts = [
        (part.clip_to(window.low, window.high), i)
        for i, (reason, part) in enumerate(window.facts.partition.parts.items())
        if reason != "compute"
    ]
    label = np.concatenate([np.full(len(part), i) for part, i in parts])
    buckets = np.array([BUCKETS.index(REASONS[name][0]) for name in names])
    bars = _sort_bars(
        np.concatenate([part.start for part, _ in parts]),
        np.concatenate([part.end for part, _ in parts]),
        label,
        buckets[label],
    )
    meanings = [meaning for _, meaning in REASONS.values()]
    return window.make_lane("lost time", "gap", bars, LabelTable(meanings, BUCKETS))


def _sort_bars(start: I64, end: I64, label: I64, group: I64) -> Bars:
    order = np.argsort(start, kind="stable")
    return Bars(start[order], end[order], label[order], group[order])


# -- device -----------------------------------------------------------------------------------


def _stream_lanes(window: _Window) -> list[Lane]:
    """The streams with the most work."""
    facts, device = window.facts, window.facts.timeline.device
    rows = np.flatnonzero((device.start < window.high) & (device.end > window.low))
    keys = device.device[rows].astype(np.int64) << 48 | device.stream[rows]
    _, index = np.unique(keys, return_inverse=True)
    work = np.bincount(index, weights=device.end[rows] - device.start[rows])
    groups, which = np.unique(_device_groups(facts, rows), return_inverse=True)
    several = len(np.unique(device.device[rows])) > 1
    lanes = []
    for i in sorted(np.argsort(-work, kind="stable")[:STREAMS]):
        mine = index == i
        row = rows[mine]
        bars = Bars(device.start[row], device.end[row], device.name[row], which[mine])
        name = f"stream {device.stream[row[0]]}"
        name = f"GPU {device.device[row[0]]} {name}" if several else name
        listed = [str(group) for group in groups]
        lanes.append(
            window.make_lane(
                name, "device", bars, LabelTable(facts.timeline.names, listed, shorten_kernel)
            )
        )
    return lanes


def _device_groups(facts: Facts, rows: I64) -> NDArray[np.str_]:
    """Kernel group, or the direction where the event is a copy between host and device."""
    direction = facts.direction[rows]
    return np.where(direction != "", direction, facts.group[rows])


_CALLED = re.compile(r"^(?:void|int|float|bool|static)\s+")
_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|at::native::|at::cuda::|std::")
_FUNCTOR = re.compile(r"(\w+(?:Functor|Ops?|kernel_cuda|_kernel_impl)\w*)")


def shorten_kernel(name: str) -> str:
    """A kernel's name without template arguments and namespaces, with the functor that tells
    element-wise kernels apart."""
    if name.startswith(("Memcpy", "Memset")):
        return name
    plain = _UNNAMED.sub("", _CALLED.sub("", name))
    head, _, inside = plain.partition("<")
    head = head.partition("(")[0] or plain
    functor = _FUNCTOR.search(inside)
    told = f"{head} [{functor[1]}]" if functor and functor[1] not in head else head
    return told if len(told) <= LABEL_CHARS else told[: LABEL_CHARS - 1] + "…"


# -- host -------------------------------------------------------------------------------------


def _thread_lanes(window: _Window) -> list[Lane]:
    """For the threads that feed the device: annotations, operators, runtime calls, Python."""
    host = window.facts.timeline.host
    rows = np.flatnonzero((host.start < window.high) & (host.end > window.low))
    drivers = window.facts.host.drivers
    counts = np.array([(host.thread[rows] == thread).sum() for thread in drivers])
    lanes = []
    for number, i in enumerate(np.argsort(-counts, kind="stable")[:THREADS]):
        mine = rows[host.thread[rows] == drivers[i]]
        name = "host" if number == 0 else f"host thread {number + 1}"
        for kind, title, long in (
            (HostKind.PYTHON, "Python", LONG_FRAME),
            (HostKind.ANNOTATION, "annotations", 1),
            (HostKind.OP, "operators", LONG_OP),
            (HostKind.RUNTIME, "runtime calls", 1),
        ):
            lanes.append(_thread_lane(window, mine, kind, f"{name}: {title}", long))
    return lanes


def _thread_lane(window: _Window, rows: I64, kind: HostKind, name: str, long: int) -> Lane:
    timeline = window.facts.timeline
    mine = rows[timeline.host.kind[rows] == kind]
    if kind is HostKind.ANNOTATION:
        mine = np.setdiff1d(mine, timeline.rows_of(Role.PROFILER_STEP))
    start, end, row = flatten_nested(
        timeline.host.start[mine], timeline.host.end[mine], window.length_ns // long
    )
    group = np.zeros(len(row), dtype=np.int64)
    bars = Bars(start, end, timeline.host.name[mine][row].astype(np.int64), group)
    return window.make_lane(
        name, "host", bars, LabelTable(timeline.names, [kind.name.lower()], _shorten_frame)
    )


def flatten_nested(start: I64, end: I64, long: int) -> tuple[I64, I64, I64]:
    """Nested events of one thread, flattened: from the outermost inwards, the first event that is
    shorter than ``long`` is drawn, and a longer one only where it called nothing.

    Args:
        start: starts sorted, the longer first where two are equal, ns.
        end: ends, ns.
        long: the length from which an event is opened up, ns.

    Returns:
        Disjoint pieces sorted by start: (start, end, row of the event).
    """
    kept = _rows_reached(Nesting.nest_events(start, end), start, end, long)
    edges = np.unique(np.concatenate([start[kept], end[kept]]))
    inner = Nesting.nest_events(start[kept], end[kept]).innermost_at(edges[:-1])
    covered = inner >= 0
    if not covered.any():
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    begin, finish, row = edges[:-1][covered], edges[1:][covered], kept[inner[covered]]
    new = np.ones(len(row), dtype=bool)
    new[1:] = (row[1:] != row[:-1]) | (begin[1:] != finish[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(row)) - 1
    return begin[first], finish[last], row[first]


def _rows_reached(nesting: Nesting, start: I64, end: I64, long: int) -> I64:
    """Rows whose enclosing events are all at least ``long``."""
    reached = np.zeros(len(start), dtype=bool)
    above: I64 | None = None
    for level in nesting.levels:
        if above is None:
            reached[level] = True
        else:
            index = np.searchsorted(start[above], start[level], side="right") - 1
            parent = above[np.maximum(index, 0)]
            reached[level] = reached[parent] & (end[parent] - start[parent] >= long)
        above = level
    return np.flatnonzero(reached)


_PATH = re.compile(r"^.*?((?:[^/\\]+[/\\])?[^/\\]+\.py\(\d+\): .*)$")

_WATCHED = {
    "whyidle::blocked": "waits",
    "whyidle::locked": "waits for the interpreter's lock",
    "whyidle::python": "Python",
    "whyidle::backward": "backward pass",
    "whyidle::optimizer": "optimizer",
}


def _shorten_frame(name: str) -> str:
    """A host event's name; a Python frame with its file and folder only, and what was recorded of
    a watched thread in words."""
    told = _WATCHED.get(name) or _PATH.sub(r"\1", name)
    return told if len(told) <= LABEL_CHARS else told[: LABEL_CHARS - 1] + "…"
