"""A typical steady step as lanes of bars: host activity, device streams and lost time.

A lane holds a bounded number of bars. Beyond it, adjacent short bars are merged, and ``dropped``
is the number of bars hidden by that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.nesting import Nesting
from whyidle.model.buckets import BUCKETS, REASONS
from whyidle.model.documents.step_timeline import Lane, Picture, Slice
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

I64 = NDArray[np.int64]
Kind = Literal["host", "device", "gap"]

BARS = 300  # a lane with more bars than this merges those shorter than the window divided by it
LONG_OP = 10
LONG_FRAME = 40
"""operators and Python frames longer than this part of the window are replaced by their callees"""
LABEL_CHARS = 80


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Disjoint bars sorted by start, ns; ``label`` and ``group`` index lists of texts."""

    start: I64
    end: I64
    label: I64
    group: I64

    def take_rows(self, rows: NDArray[np.generic]) -> Bars:
        """Select rows."""
        return Bars(self.start[rows], self.end[rows], self.label[rows], self.group[rows])

    def clip_bars(self, low: int, high: int) -> Bars:
        """Clip to ``[low, high)``."""
        start, end = np.clip(self.start, low, high), np.clip(self.end, low, high)
        return Bars(start, end, self.label, self.group).take_rows(end > start)


def draw_step(facts: Facts) -> Picture | None:
    """Draw the step of median length; None if it is empty."""
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
    """The texts that bars index; ``say`` shortens a label."""

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
        """Make a lane with a bounded number of bars."""
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
    """Merge adjacent bars shorter than ``width`` that start in the same cell of ``width``. Return
    the bars, labelled as their longest member, and the number of members and their total length,
    ns."""
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
    names = list(REASONS)
    parts = [
        (part.clip_to(window.low, window.high), i)
        for i, (reason, part) in enumerate(window.facts.partition.parts.items())
        if reason != "compute"
    ]
    label = np.concatenate([np.full(len(part), i) for part, i in parts])
    buckets = np.array([BUCKETS.index(REASONS[name][0]) for name in names])
    start = np.concatenate([part.start for part, _ in parts])
    end = np.concatenate([part.end for part, _ in parts])
    order = np.argsort(start, kind="stable")
    bars = Bars(start[order], end[order], label[order], buckets[label[order]])
    meanings = [meaning for _, meaning in REASONS.values()]
    return window.make_lane("lost time", "gap", bars, LabelTable(meanings, BUCKETS))


# -- device -----------------------------------------------------------------------------------


def _stream_lanes(window: _Window) -> list[Lane]:
    facts, device = window.facts, window.facts.timeline.device
    rows = np.flatnonzero((device.start < window.high) & (device.end > window.low))
    keys = device.device[rows].astype(np.int64) << 48 | device.stream[rows]
    _, index = np.unique(keys, return_inverse=True)
    work = np.bincount(index, weights=device.end[rows] - device.start[rows])
    direction = facts.direction[rows]
    grouped = np.where(direction != "", direction, facts.group[rows])
    groups, which = np.unique(grouped, return_inverse=True)
    several = len(np.unique(device.device[rows])) > 1
    lanes = []
    for i in sorted(np.argsort(-work, kind="stable")[:5]):
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


_CALLED = re.compile(r"^(?:void|int|float|bool|static)\s+")
_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|at::native::|at::cuda::|std::")
_FUNCTOR = re.compile(r"(\w+(?:Functor|Ops?|kernel_cuda|_kernel_impl)\w*)")


def shorten_kernel(name: str) -> str:
    """Shorten a kernel's name, but keep the functor that distinguishes element-wise kernels."""
    if name.startswith(("Memcpy", "Memset")):
        return name
    plain = _UNNAMED.sub("", _CALLED.sub("", name))
    head, _, inside = plain.partition("<")
    head = head.partition("(")[0] or plain
    functor = _FUNCTOR.search(inside)
    label = f"{head} [{functor[1]}]" if functor and functor[1] not in head else head
    return label if len(label) <= LABEL_CHARS else label[: LABEL_CHARS - 1] + "…"


# -- host -------------------------------------------------------------------------------------


def _thread_lanes(window: _Window) -> list[Lane]:
    host = window.facts.timeline.host
    rows = np.flatnonzero((host.start < window.high) & (host.end > window.low))
    drivers = window.facts.host.drivers
    counts = np.array([(host.thread[rows] == thread).sum() for thread in drivers])
    lanes = []
    for number, i in enumerate(np.argsort(-counts, kind="stable")[:2]):
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
    """Flatten nested events of one thread into disjoint pieces (start, end, row of the event),
    sorted by start: events of at least ``long`` ns are replaced by their callees, and drawn only
    where they call nothing. Starts are sorted, of equal ones the longer event first."""
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
    "whyidle::locked": "waits for the GIL",
    "whyidle::python": "Python",
    "whyidle::backward": "backward pass",
    "whyidle::optimizer": "optimizer",
}


def _shorten_frame(name: str) -> str:
    label = _WATCHED.get(name) or _PATH.sub(r"\1", name)
    return label if len(label) <= LABEL_CHARS else label[: LABEL_CHARS - 1] + "…"
