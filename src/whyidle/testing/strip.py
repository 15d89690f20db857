"""Takes one kind of evidence out of a recording, as if it had never been recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from whyidle.model.timeline import Detail, DeviceInfo, HostKind, MemorySamples, Timeline

_STEPS = re.compile(
    r"^(ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|\[pl\]|step\[|train_step)"
)
_LOADER = re.compile(r"DataLoader|dataloader|^## (data_load|load_batch|wait_for)|batch$")


def _without_host(timeline: Timeline, *kinds: HostKind) -> Timeline:
    return replace(timeline, host=timeline.host.take(~np.isin(timeline.host.kind, kinds)))


def _without_names(timeline: Timeline, pattern: re.Pattern[str]) -> Timeline:
    wanted = [i for i, name in enumerate(timeline.names) if pattern.search(name)]
    return replace(timeline, host=timeline.host.take(~np.isin(timeline.host.name, wanted)))


def _device_events(timeline: Timeline) -> Timeline:
    return replace(timeline, device=timeline.device.take(np.empty(0, np.int64)))


def _launch_links(timeline: Timeline) -> Timeline:
    host = timeline.host.take(np.arange(len(timeline.host)))
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


def _info(**changes: object) -> Callable[[Timeline], Timeline]:
    def strip(timeline: Timeline) -> Timeline:
        info: DeviceInfo = replace(timeline.info, **changes)  # type: ignore[arg-type]
        return replace(timeline, info=info)

    return strip


STRIPPERS: Final[dict[str, Callable[[Timeline], Timeline]]] = {
    "device_events": _device_events,
    "device_time": _device_events,
    "host_ops": lambda timeline: _without_host(timeline, HostKind.OP),
    "every_operator": lambda timeline: _without_host(timeline, HostKind.OP),
    "runtime_calls": lambda timeline: _without_host(timeline, HostKind.RUNTIME),
    "launch_links": _launch_links,
    "steps": lambda timeline: _without_host(_device_events(timeline), *HostKind),
    "steady_steps": lambda timeline: _without_names(_without_names(timeline, _STEPS), _LOADER),
    "loader_marks": lambda timeline: _without_names(timeline, _LOADER),
    "python_stacks": _stacks,
    "shapes": _shapes,
    "memory_events": _memory,
    "memory_capacity": _info(memory_bytes=None),
    "gpu_model": _info(name=None),
}
"""signal -> function that removes it (signals that no single recording holds are absent)"""
