"""Removal of one kind of evidence from a recording, as if it had not been recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from msgspec import Struct, structs

from whyidle.model.loader_tables import PADDING, ROW
from whyidle.model.timeline import Detail, HostKind, MemorySamples, Timeline

_LOADER = re.compile(
    r"DataLoader|dataloader|^## (data_load|load_batch|wait_for)|batch$|^IteratorGetNext$|"
    r"^(grain|datasets|webdataset|nvidia)\."
)


def _without_host(timeline: Timeline, *kinds: HostKind) -> Timeline:
    return replace(timeline, host=timeline.host.take_rows(~np.isin(timeline.host.kind, kinds)))


def _without_names(timeline: Timeline, pattern: re.Pattern[str]) -> Timeline:
    matches = [i for i, name in enumerate(timeline.names) if pattern.search(name)]
    return replace(timeline, host=timeline.host.take_rows(~np.isin(timeline.host.name, matches)))


def _steps(timeline: Timeline) -> Timeline:
    return _without_host(_device_events(timeline), *HostKind)


def _change(part: str, **changes: object) -> Callable[[Timeline], Timeline]:
    def strip(timeline: Timeline) -> Timeline:
        old = getattr(timeline, part)
        renew: Any = structs.replace if isinstance(old, Struct) else replace
        changed: dict[str, Any] = {part: renew(old, **changes)}
        return replace(timeline, **changed)

    return strip


def _batches(timeline: Timeline) -> Timeline:
    batches = timeline.loading.batches
    loading = replace(timeline.loading, batches=batches[batches["worker"] < 0])
    return replace(timeline, loading=loading)


def _telemetry(timeline: Timeline) -> Timeline:
    return replace(timeline, telemetry=None)


def _device_events(timeline: Timeline) -> Timeline:
    return replace(timeline, device=timeline.device.take_rows(np.empty(0, np.int64)))


def _launch_links(timeline: Timeline) -> Timeline:
    host = timeline.host.take_rows(np.arange(len(timeline.host)))
    host.corr[:] = -1
    return replace(timeline, host=host)


def _stacks(timeline: Timeline) -> Timeline:
    details = tuple(replace(detail, stack="") for detail in timeline.details)
    return _without_host(replace(timeline, details=details), HostKind.PYTHON)


def _shapes(timeline: Timeline) -> Timeline:
    details: tuple[Detail, ...] = tuple(replace(d, dims="", types="") for d in timeline.details)
    return replace(timeline, details=details)


def _memory(timeline: Timeline) -> Timeline:
    empty = np.empty(0, np.int64)
    return replace(timeline, memory=MemorySamples(empty, empty, empty))


STRIPPERS: Final[dict[str, Callable[[Timeline], Timeline]]] = {
    "device_events": _device_events,
    "tfdata_model": _change("process", pipelines=()),
    "device_time": lambda timeline: _without_host(_device_events(timeline), HostKind.OP),
    "host_ops": lambda timeline: _without_host(timeline, HostKind.OP),
    "every_operator": lambda timeline: _without_host(timeline, HostKind.OP),
    "runtime_calls": lambda timeline: _without_host(timeline, HostKind.RUNTIME),
    "launch_links": _launch_links,
    "steps": _steps,
    "steady_steps": _steps,
    "loader_marks": lambda timeline: _without_names(timeline, _LOADER),
    "worker_batches": _batches,
    "row_sums": _change("loading", rows=np.zeros(0, ROW)),
    "batch_padding": _change("loading", padding=np.zeros(0, PADDING)),
    "pause_marks": lambda timeline: _without_host(
        _stacks(timeline), HostKind.ANNOTATION, HostKind.OP
    ),
    "python_stacks": _stacks,
    "own_settings": _change("process", switches=None),
    "model_look": _change("process", model_look=None),
    "own_allocator": _change("process", allocator=None),
    "own_process": _change("process", imported=None),
    "shapes": _shapes,
    "memory_events": _memory,
    "memory_capacity": _change("info", memory_bytes=None),
    "gpu_model": _change("info", name=None),
    "world_size": lambda timeline: replace(timeline, world_size=None),
    "device_use": lambda timeline: replace(timeline, telemetry=None, world_size=None),
    "device_marks": lambda timeline: replace(timeline, marks=timeline.marks[:0]),
    "host_telemetry": _telemetry,
    "gpu_telemetry": _telemetry,
}
"""signal -> function that removes it from one recording"""


def strip_signal(signal: str, timelines: Sequence[Timeline]) -> list[Timeline]:
    """Return the recordings of a job without one signal.

    Raises:
        KeyError: the signal is not known here.
    """
    if signal == "several_ranks":
        return list(timelines[:1])
    return [STRIPPERS[signal](timeline) for timeline in timelines]
