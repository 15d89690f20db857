"""The collectives of one rank: what they are, which group they belong to, how large they are.

On a device they are its collective kernels (NCCL, RCCL and the like); on a CPU job the spans that
the process group records (``gloo:all_reduce``), which run from call to completion on threads of
their own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among
from whyidle.analysis.host_activity import HostActivity
from whyidle.analysis.idle_gaps import pick_rows
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.step_detection import StepWindows
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

I64 = NDArray[np.int64]

_KINDS: Final = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_reduce", r"all_?reduce"),
        ("all_gather", r"all_?gather"),
        ("all_to_all", r"all_?to_?all"),
        ("broadcast", r"broadcast"),
        ("barrier", r"barrier"),
        ("send_recv", r"send|recv"),
        ("gather", r"gather"),
        ("scatter", r"scatter"),
        ("reduce", r"reduce"),
    )
)
JOINT: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""kinds in which every rank needs something of every other: all leave nearly together"""
_SPAN: Final = re.compile(r"^(nccl|rccl|gloo|mpi|ucc):")
_TYPE_BYTES: Final = (
    (re.compile(r"double|f64|long|int64|i64|u64", re.I), 8),
    (re.compile(r"bf16|bfloat16|f16|half", re.I), 2),
    (re.compile(r"signed char|i8|u8|bool|float8|f8|byte", re.I), 1),
    (re.compile(r"float|f32|\bint\b|i32|u32", re.I), 4),
)


@dataclass(frozen=True, slots=True, eq=False)
class Collectives:
    """Sorted by start. ``kind`` and ``group`` are words ("" group: not recorded), ``lane`` numbers
    the streams or threads pools by first use, ``step`` is the step's index (-1: none),
    ``elements``, ``bytes`` and ``group_size`` are -1 where unknown."""

    start: I64
    end: I64
    kind: NDArray[np.str_]
    group: NDArray[np.str_]
    lane: I64
    step: I64
    elements: I64
    bytes: I64
    group_size: I64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> I64:
        """Length of each, ns."""
        return self.end - self.start

    @property
    def leaves_together(self) -> NDArray[np.bool_]:
        """Whether all ranks of the group leave it together."""
        return np.isin(self.kind, JOINT)

    @property
    def in_flight(self) -> Intervals:
        """When any was in flight."""
        return union_of(self.start, self.end)

    def take_rows(self, rows: NDArray[Any]) -> Collectives:
        """The same columns for some rows (indices or mask)."""
        return Collectives(*(getattr(self, column)[rows] for column in self.__slots__))


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """What kind of collective a kernel, span or recorded name is; "other" where it is unclear."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def find_collectives(timeline: Timeline, steps: StepWindows, host: HostActivity) -> Collectives:
    """All collectives of one recording."""
    if len(timeline.device):
        return _of_device(timeline, steps, host)
    return _of_host(timeline, steps, timeline.rows_of(Role.COLLECTIVE_FLIGHT))


def _of_device(timeline: Timeline, steps: StepWindows, host: HostActivity) -> Collectives:
    device, linked = timeline.device, host.linked
    rows = np.flatnonzero(host.collective)
    span = _enclosing_spans(timeline, linked.call[rows])
    own, outer = device.detail[rows], _detail_of(timeline, span)
    texts = [timeline.names[i] for i in device.name[rows]]
    spans = [timeline.names[timeline.host.name[i]] if i >= 0 else "" for i in span]
    told = [
        _CollectiveDetails.read_details(timeline, int(a), int(b), text, called)
        for a, b, text, called in zip(own, outer, texts, spans, strict=True)
    ]
    start, end = device.start[rows], device.end[rows]
    lanes = device.device[rows].astype(np.int64) * (1 << 32) + device.stream[rows]
    return _build_columns(start, end, told, lanes, steps)


def _of_host(timeline: Timeline, steps: StepWindows, rows: I64) -> Collectives:
    host = timeline.host
    told = [
        _CollectiveDetails.read_details(
            timeline, -1, int(host.detail[row]), timeline.names[host.name[row]], ""
        )
        for row in rows
    ]
    # a pool of threads serves one group, so threads tell nothing apart
    lanes = np.zeros(len(rows), np.int64)
    return _build_columns(host.start[rows], host.end[rows], told, lanes, steps)


def _build_columns(
    start: I64, end: I64, told: list[_CollectiveDetails], lanes: I64, steps: StepWindows
) -> Collectives:
    step = np.searchsorted(steps.start, start, side="right") - 1
    step[start >= steps.end[-1]] = -1
    return Collectives(
        start=start,
        end=end,
        kind=np.array([t.kind for t in told], dtype="U14"),
        group=np.array([t.group for t in told], dtype="U64"),
        lane=_by_first_use(lanes),
        step=step.astype(np.int64),
        elements=np.array([t.elements for t in told], dtype=np.int64),
        bytes=np.array([t.bytes for t in told], dtype=np.int64),
        group_size=np.array([t.group_size for t in told], dtype=np.int64),
    )


def _by_first_use(lanes: I64) -> I64:
    """Numbers for lanes in the order in which they first appear: stream ids differ by rank."""
    _, first, inverse = np.unique(lanes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def _enclosing_spans(timeline: Timeline, calls: I64) -> I64:
    """The span (``nccl:all_reduce``) around each launch call, as row of the host; -1: none."""
    host = timeline.host
    wanted = [i for i, name in enumerate(timeline.names) if _SPAN.search(name)]
    rows = np.flatnonzero(is_among(host.name, wanted))
    found = np.full(len(calls), -1, dtype=np.int64)
    for thread in np.unique(host.thread[rows]):
        mine = rows[host.thread[rows] == thread]
        here = np.flatnonzero((calls >= 0) & (host.thread[np.maximum(calls, 0)] == thread))
        at = host.start[calls[here]]
        index = np.searchsorted(host.start[mine], at, side="right") - 1
        row = mine[np.maximum(index, 0)]
        inside = (index >= 0) & (at < host.end[row])
        found[here[inside]] = row[inside]
    return found


def _detail_of(timeline: Timeline, rows: I64) -> NDArray[np.int32]:
    if not len(timeline.host):
        return np.full(len(rows), -1, np.int32)
    return pick_rows(timeline.host.detail, rows, -1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _CollectiveDetails:
    """What one collective's event, and the span around its launch, say of it."""

    kind: str
    group: str
    elements: int
    bytes: int
    group_size: int

    @classmethod
    def read_details(
        cls, timeline: Timeline, own: int, outer: int, name: str, span: str
    ) -> _CollectiveDetails:
        detail = timeline.details[own] if own >= 0 else None
        around = timeline.details[outer] if outer >= 0 else None
        kind = kind_of((detail.collective if detail else "") or span or name)
        elements, size = (-1, -1)
        if detail and detail.elements >= 0:
            elements, size = detail.elements, _reduced_bytes(name, kind)
        elif around:
            elements, size = _input_shape(around.dims, around.types)
        return cls(
            kind=kind,
            group=(detail.group if detail else "") or "",
            elements=elements,
            bytes=elements * size if elements >= 0 and size > 0 else -1,
            group_size=detail.group_size if detail else -1,
        )


@lru_cache(maxsize=4096)
def _reduced_bytes(name: str, kind: str) -> int:
    """Bytes per element by a kernel's name. Only reductions are typed: kernels that merely move
    data are all named int8."""
    return _type_bytes(name) if kind in ("all_reduce", "reduce_scatter", "reduce") else -1


@lru_cache(maxsize=4096)
def _type_bytes(text: str) -> int:
    return next((size for pattern, size in _TYPE_BYTES if pattern.search(text)), -1)


@lru_cache(maxsize=4096)
def _input_shape(dims: str, types: str) -> tuple[int, int]:
    """(elements of all inputs, bytes of one) from the recorded shapes; -1 where unknown."""
    try:
        shapes, kinds = json.loads(dims or "[]"), json.loads(types or "[]")
    except ValueError:
        return -1, -1
    elements = _element_count(shapes)
    first = kinds[0] if isinstance(kinds, list) and kinds else ""
    return (elements or -1), _type_bytes(first) if isinstance(first, str) else -1


def _element_count(shape: Any) -> int:
    """Elements of a shape ``[2, 3]`` or of a nest of shapes."""
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(size, int) for size in shape):
        return int(np.prod([max(size, 0) for size in shape], dtype=object))
    return sum(_element_count(part) for part in shape)
