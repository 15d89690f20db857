"""Traces of ``torch.autograd.profiler`` before Kineto (PyTorch 1.0 to 1.8, and later without it):
operators on the CPU, and the time of each on the GPU."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from whyidle.model.timeline import DeviceInfo, DeviceKind, Source, Timeline
from whyidle.readers._events.event_rows import EventRows, find_innermost
from whyidle.readers._events.plain_events import EventGroup, PlainEvent, build_timeline, read_events
from whyidle.readers._events.trace_header import name_device
from whyidle.readers._files.byte_stream import Progress
from whyidle.readers._files.formats import FORMATS

SUFFIXES, sniff = FORMATS["legacy_autograd"].SUFFIXES, FORMATS["legacy_autograd"].sniff
_CPU, _CUDA = "CPU functions", "CUDA functions"
_NOTE = (
    "recorded by the legacy autograd profiler, which knows operators but neither kernels nor "
    "launches nor copies: record with torch.profiler to see them"
)


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
        innermost = find_innermost(group.start, group.end)
        rows.add_device(
            group.start[innermost],
            group.end[innermost],
            kind=DeviceKind.KERNEL,
            name=group.name_codes(rows)[innermost],
            device=int(place) % (1 << 15) if place.isdecimal() else 0,
        )
    named = name_device(event.name for events in groups.values() for event in events)
    info = DeviceInfo(kind="cuda", count=devices) if devices else named
    shown = f"{path}!{member}" if member else str(path)
    return build_timeline(trace, rows, info, Source(shown, "legacy_autograd", notes=(_NOTE,)))
