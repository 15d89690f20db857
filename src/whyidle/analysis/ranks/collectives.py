"""The collectives of one rank with kind, group and size. On a device they are collective kernels
(NCCL, RCCL); on a CPU the spans of the process group (``gloo:all_reduce``), from call to completion
on threads of their own."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.host_activity import HostActivity
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.steps.step_detection import StepWindows
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

_KINDS: Final = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        ("dispatch", r"dispatch"),  # tokens to the ranks of their experts, and back
        ("combine", r"combine"),
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
JOINT: Final = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"),
    *("dispatch", "combine"),
)
"""kinds in which every rank needs data of every other: all leave nearly together"""
POINT_TO_POINT: Final = "point_to_point"
"""sends and receives of the job itself, as between pipeline stages. *send_recv* is a kernel without
the call that launched it: NCCL also makes an all-to-all of such kernels"""
_SPAN: Final = re.compile(r"^(nccl|rccl|gloo|mpi|ucc):")
_TYPE_BYTES: Final = (
    (re.compile(r"double|f64|long|int64|i64|u64", re.I), 8),
    (re.compile(r"bf16|bfloat16|f16|half", re.I), 2),
    (re.compile(r"signed char|i8|u8|bool|float8|f8|byte", re.I), 1),
    (re.compile(r"float|f32|\bint\b|i32|u32", re.I), 4),
)


class Collectives(Struct, frozen=True, eq=False):
    """Collectives sorted by start. ``group`` is "" where not recorded, ``lane`` numbers streams by
    first use, ``step`` is the step's index (-1: none); ``elements``, ``bytes`` and ``group_size``
    are -1 where unknown."""

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
    def in_flight(self) -> Intervals:
        """When any was in flight."""
        return union_of(self.start, self.end)

    def take_rows(self, rows: NDArray[Any]) -> Collectives:
        """Return the same columns for some rows (indices or mask)."""
        return Collectives(*(getattr(self, column)[rows] for column in self.__struct_fields__))


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """Return the kind of collective that a recorded name means; "other" if unclear."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def find_collectives(timeline: Timeline, steps: StepWindows, host: HostActivity) -> Collectives:
    """Return all collectives of one recording."""
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
    details = [
        _CollectiveDetails.read_details(timeline, int(a), int(b), text, called)
        for a, b, text, called in zip(own, outer, texts, spans, strict=True)
    ]
    start, end = device.start[rows], device.end[rows]
    lanes = device.device[rows].astype(np.int64) * (1 << 32) + device.stream[rows]
    return _build_columns(start, end, details, lanes, steps)


def _of_host(timeline: Timeline, steps: StepWindows, rows: I64) -> Collectives:
    host = timeline.host
    read, names = _CollectiveDetails.read_details, timeline.names
    details = [read(timeline, -1, int(host.detail[i]), names[host.name[i]], "") for i in rows]
    # a pool of threads serves one group, so threads do not distinguish groups
    lanes = np.zeros(len(rows), np.int64)
    return _build_columns(host.start[rows], host.end[rows], details, lanes, steps)


def _build_columns(
    start: I64, end: I64, details: list[_CollectiveDetails], lanes: I64, steps: StepWindows
) -> Collectives:
    step = np.searchsorted(steps.start, start, side="right") - 1
    step[start >= steps.end[-1]] = -1
    _, first, lane = np.unique(lanes, return_index=True, return_inverse=True)
    return Collectives(
        start=start,
        end=end,
        kind=np.array([detail.kind for detail in details], dtype="U14"),
        group=np.array([detail.group for detail in details], dtype="U64"),
        lane=np.argsort(np.argsort(first))[lane].astype(np.int64),  # stream ids differ by rank
        step=step.astype(np.int64),
        elements=np.array([detail.elements for detail in details], dtype=np.int64),
        bytes=np.array([detail.bytes for detail in details], dtype=np.int64),
        group_size=np.array([detail.group_size for detail in details], dtype=np.int64),
    )


def _enclosing_spans(timeline: Timeline, calls: I64) -> I64:
    """The span (``nccl:all_reduce``) around each launch call, as host row; -1: none."""
    host = timeline.host
    span_names = [i for i, name in enumerate(timeline.names) if _SPAN.search(name)]
    rows = np.flatnonzero(is_among(host.name, span_names))
    spans = np.full(len(calls), -1, dtype=np.int64)
    for thread in np.unique(host.thread[rows]):
        own = rows[host.thread[rows] == thread]
        own_calls = np.flatnonzero((calls >= 0) & (host.thread[np.maximum(calls, 0)] == thread))
        begins = host.start[calls[own_calls]]
        index = np.searchsorted(host.start[own], begins, side="right") - 1
        row = own[np.maximum(index, 0)]
        inside = (index >= 0) & (begins < host.end[row])
        spans[own_calls[inside]] = row[inside]
    return spans


def _detail_of(timeline: Timeline, rows: I64) -> NDArray[np.int32]:
    if not len(timeline.host):
        return np.full(len(rows), -1, np.int32)
    return pick_rows(timeline.host.detail, rows, -1).astype(np.int32)


class _CollectiveDetails(Struct, frozen=True):
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
        called = (detail.collective if detail else "") or span
        kind = kind_of(called)
        kind = kind_of(name) if kind == "other" else kind
        kind = POINT_TO_POINT if kind == "send_recv" and called else kind
        elements, size = (-1, -1)
        if detail and detail.elements >= 0:
            # only reductions are typed, as copying kernels are named int8
            typed = kind in ("all_reduce", "reduce_scatter", "reduce")
            elements, size = detail.elements, _type_bytes(name) if typed else -1
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
def _type_bytes(text: str) -> int:
    return next((size for pattern, size in _TYPE_BYTES if pattern.search(text)), -1)


@lru_cache(maxsize=4096)
def _input_shape(dims: str, types: str) -> tuple[int, int]:
    try:
        shapes, kinds = json.loads(dims or "[]"), json.loads(types or "[]")
    except ValueError:
        return -1, -1
    elements = _element_count(shapes)
    first = kinds[0] if isinstance(kinds, list) and kinds else ""
    return (elements or -1), _type_bytes(first) if isinstance(first, str) else -1


def _element_count(shape: Any) -> int:
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(size, int) for size in shape):
        return int(np.prod([max(size, 0) for size in shape], dtype=object))
    return sum(_element_count(part) for part in shape)
