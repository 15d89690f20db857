"""Traces of PyTorch on Ascend NPUs (``trace_view.json`` of torch_npu): operators, calls of CANN,
work on the NPU and collectives, told apart by the names of their processes."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import DeviceInfo, DeviceKind, HostKind, Source, Timeline
from whyidle.readers import kineto
from whyidle.readers._events.event_rows import EventRows, merge_spans
from whyidle.readers._events.plain_events import EventGroup, PlainEvent, build_timeline, read_events
from whyidle.readers._files.byte_stream import Progress

SUFFIXES = (".json", ".json.gz")
_MAGIC = re.compile(rb'\s*[\[{].{0,4096}?(?:"Ascend Hardware"|AscendCL@|"ts"\s*:\s*"\d)', re.DOTALL)
_DEVICE = "Ascend Hardware"
_COLLECTIVES = ("Communication", "HCCL")
_OVERLAP = "Overlap Analysis"
"""rows of the exporter's own: when any task computed, and when any collective ran"""
_RUNTIME = "CANN"
_HOST = ("Python", "MindSpore", "")
_FLOW = "HostToDevice"
_NO_WORK = re.compile(r"^(EVENT_|NOTIFY|Notify)")
"""tasks with which streams wait for one another"""
_OF_CORES = re.compile(r"AI|MIX|KERNEL|DSA|FFTS|MEMCPY")
"""types of tasks that compute or copy, whatever runs beside them"""
_DIRECTIONS = (("HostToDevice", "HtoD"), ("DeviceToHost", "DtoH"), ("DeviceToDevice", "DtoD"))

Place = tuple[Any, Any, int]
"""(process, thread, start in ns) of an event, by which flows name it"""


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes have this format."""
    return _MAGIC.match(head) is not None


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read one process's trace: a file or a zip's ``member``. One without an NPU is read as a trace
    of PyTorch's profiler.

    Raises:
        InputError: the file cannot be opened.
        BrokenTraceError: nothing in it could be read.
    """
    trace = read_events(path, member, progress)
    processes = {
        _key(event.pid): str(event.argument("name"))
        for event in trace.events
        if event.ph == "M" and event.name == "process_name"
    }
    if _DEVICE not in processes.values():
        return kineto.load(path, member=member, progress=progress)
    rows = EventRows()
    links = _read_flows(trace.events)
    groups: dict[tuple[Any, Any], list[PlainEvent]] = defaultdict(list)
    for event in trace.events:
        if event.is_span:
            groups[_key(event.pid), _key(event.tid)].append(event)
    collectives = _collectives(groups, processes)
    name = rows.name_codes([f"hccl {event.name}" for event in collectives.events])
    rows.add_device(collectives.start, collectives.end, kind=DeviceKind.KERNEL, name=name)
    spans = merge_spans(collectives.start, collectives.end)
    for (process, thread), events in groups.items():
        kept = _without_transport(events, *spans) if processes.get(process) == _DEVICE else events
        _add_group(rows, processes.get(process, ""), f"{process}/{thread}", kept, links)
    shown = f"{path}!{member}" if member else str(path)
    count = sum(name == _DEVICE for name in processes.values())
    info = DeviceInfo(kind="other", name="Ascend NPU", count=count)
    return build_timeline(trace, rows, info, Source(shown, "ascend"))


def _key(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else None


def _read_flows(events: list[PlainEvent]) -> dict[Place, int]:
    """The number of the flow from a call to its work, by the place of either."""
    links: dict[Place, int] = {}
    numbers: dict[Any, int] = {}
    for event in events:
        if event.ph in ("s", "f") and event.cat == _FLOW:
            number = numbers.setdefault(str(event.id), len(numbers) + 1)
            links[_place_of(event)] = number
    return links


def _place_of(event: PlainEvent) -> Place:
    return _key(event.pid), _key(event.tid), event.start_ns


def _add_group(
    rows: EventRows, process: str, thread: str, events: list[PlainEvent], links: dict[Place, int]
) -> None:
    """Append the events of one thread or stream; other rows of the viewer repeat them."""
    group = EventGroup(events)
    linked = np.array([links.get(_place_of(event), -1) for event in events], dtype=np.int64)
    if process == _DEVICE:
        _add_work(rows, group, linked)
    elif process == _RUNTIME:
        rows.add_host(
            group.start,
            group.end,
            kind=HostKind.RUNTIME,
            name=group.name_codes(rows),
            thread=rows.threads[thread.partition("/")[2]],
            corr=linked,
        )
    elif process in _HOST:
        group.add_host(rows, thread.partition("/")[2])


def _collectives(
    groups: dict[tuple[Any, Any], list[PlainEvent]], processes: dict[Any, str]
) -> EventGroup:
    """The collectives, without the parts of their transport; those of the exporter's analysis where
    no others were exported."""
    named = [
        (processes.get(place[0]), event) for place, events in groups.items() for event in events
    ]
    found = [event for name, event in named if name in _COLLECTIVES and _is_collective(event.name)]
    ready = [event for name, event in named if (name, event.name) == (_OVERLAP, "Communication")]
    return EventGroup(found or ready)


def _is_collective(name: str) -> bool:
    return name.lower().startswith("hcom_") or "__" in name


def _without_transport(
    events: list[PlainEvent], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> list[PlainEvent]:
    """The tasks of a stream that are no part of a collective's transport: that runs on streams of
    its own, in tasks of no core within the collective (``begin`` and ``end``)."""
    if not len(begin):
        return events
    index = np.searchsorted(begin, [event.start_ns for event in events], side="right") - 1
    inside = (index >= 0) & ([event.end_ns for event in events] <= end[index])
    tasks = [str(event.argument("Task Type") or "AI") for event in events]
    return [
        e for e, i, t in zip(events, inside, tasks, strict=True) if not i or _OF_CORES.search(t)
    ]


def _add_work(rows: EventRows, group: EventGroup, linked: Any) -> None:
    kept = np.array([not _NO_WORK.match(event.name) for event in group.events], dtype=bool)
    events = [event for event, keep in zip(group.events, kept.tolist(), strict=True) if keep]
    kinds = [_kind_of(event) for event in events]
    streams = [event.argument("Stream Id") for event in events]
    rows.add_device(
        group.start[kept],
        group.end[kept],
        kind=kinds,
        name=rows.name_codes([_work_name(event) for event in events]),
        stream=[s if isinstance(s, int) and 0 <= s < 1 << 31 else 0 for s in streams],
        corr=linked[kept],
    )


def _kind_of(event: PlainEvent) -> DeviceKind:
    task = str(event.argument("Task Type") or "")
    if "MEMCPY" in f"{task} {event.name}".upper():
        return DeviceKind.MEMCPY
    return DeviceKind.KERNEL


def _work_name(event: PlainEvent) -> str:
    for word, direction in _DIRECTIONS:
        if word.lower() in event.name.lower().replace("_", ""):
            return f"Memcpy {direction}"
    return event.name
