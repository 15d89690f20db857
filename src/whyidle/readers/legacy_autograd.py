"""Traces of ``torch.autograd.profiler`` before Kineto (PyTorch 1.0 to 1.8, and later without it):
operators on the CPU, and the time of each on the GPU."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import DeviceKind, Source, Timeline
from whyidle.readers._events.event_rows import EventRows
from whyidle.readers._events.plain_events import EventGroup, PlainEvent, build_timeline, read_events
from whyidle.readers._events.trace_header import device_of
from whyidle.readers._files.byte_stream import Progress

SUFFIXES = (".json", ".json.gz")
_MAGIC = re.compile(rb'\s*\[.{0,4096}?"pid"\s*:\s*"(?:CPU|CUDA) functions"', re.DOTALL)
_CPU, _CUDA = "CPU functions", "CUDA functions"
_NOTE = (
    "recorded by the legacy autograd profiler, which records operators but no kernels, launches "
    "or copies: record with torch.profiler to see them"
)


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes have this format."""
    return _MAGIC.match(head) is not None


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read one process's trace: a file or a zip's ``member``.

    Raises:
        InputError: the file cannot be opened.
        BrokenTraceError: nothing in it could be read.
    """
    trace = read_events(path, member, progress)
    groups: dict[tuple[str, str], list[PlainEvent]] = defaultdict(list)
    for event in trace.events:
        if event.is_span and event.pid in (_CPU, _CUDA):
            groups[event.pid, str(event.tid)].append(event)
    rows, devices = EventRows(), 0
    for (process, place), events in groups.items():
        group = EventGroup(events)
        if process == _CPU:
            group.add_host(rows, f"{_CPU}/{place}")
            continue
        devices += 1
        operators = [event for event in events if "::" in event.name]
        group = EventGroup(operators or events)  # others are ranges of the script's
        working = _find_working(group.start, group.end)
        rows.add_device(
            group.start[working],
            group.end[working],
            kind=DeviceKind.KERNEL,
            name=group.name_codes(rows)[working],
            device=int(place) % (1 << 15) if place.isdecimal() else 0,
        )
    info = device_of({}, rows.names, ["kernel"] * devices, None)
    info = replace(info, count=devices)
    shown = f"{path}!{member}" if member else str(path)
    return build_timeline(trace, rows, info, Source(shown, "legacy_autograd", notes=(_NOTE,)))


def _find_working(start: NDArray[np.int64], end: NDArray[np.int64]) -> list[int]:
    """The operators (rows) that take most of their own time on the device: one whose children take
    most of it only calls them, and the children of one whose do not are part of its work."""
    own, parents = (end - start).tolist(), list[int]()
    order = np.lexsort((-end, start)).tolist()
    for row in order:
        while parents and end[parents[-1]] < end[row]:
            parents.pop()
        if parents:
            own[parents[-1]] -= end[row] - start[row]
        parents.append(row)
    working, until = list[int](), -1
    for row in order:
        if start[row] >= until and own[row] * 2 >= end[row] - start[row]:
            working.append(row)
            until = end[row]
    return working
