"""Files that hold the recordings of several processes, as tools write that merge traces of ranks.
Their correlation ids, steps and devices have nothing in common, so each process becomes a recording
of its own."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Timeline

_LABEL = re.compile(r"^\[[^\]]+\]")
"""SGLang's merger writes ``[TP00-PP01] 4242`` for a process and ``[TP00-PP01] 0`` for its device"""


def split_processes(timeline: Timeline, device_thread: NDArray[np.int16]) -> Timeline:
    """Return the recording of the first process, with those of the ``others``. ``device_thread`` is
    the track of each device event as the file names it, an index into ``threads``."""
    host = timeline.host
    of_thread = [text.rpartition("/")[0] for text in timeline.threads]
    processes = [
        p for p in dict.fromkeys(of_thread) if p in _launching_processes(timeline, of_thread)
    ]
    if len(processes) < 2:
        return timeline
    processes.sort(key=_natural_key)
    index = {name: i for i, name in enumerate(processes)}
    owner = np.array([index.get(name, 0) for name in of_thread])[host.thread]
    device = _owners_of_device_events(timeline, of_thread, device_thread, processes, owner)
    ranks = [
        replace(
            timeline,
            host=host.take_rows(owner == i),
            device=timeline.device.take_rows(device == i),
            rank=i,
            world_size=max(timeline.world_size or 0, len(processes)),
            source=replace(timeline.source, notes=()),
        )
        for i in range(len(processes))
    ]
    note = f"the file holds {len(processes)} processes, which are judged as ranks of one job"
    source = replace(ranks[0].source, notes=(*timeline.source.notes, note))
    return replace(ranks[0], source=source, others=tuple(ranks[1:]))


def _launching_processes(timeline: Timeline, of_thread: list[str]) -> set[str]:
    """The processes that call the device's runtime, or that mark steps if none does."""
    host = timeline.host
    rows = np.flatnonzero(host.kind == HostKind.RUNTIME)
    if not len(rows):
        rows = timeline.rows_of(Role.PROFILER_STEP)
    return {of_thread[i] for i in np.unique(host.thread[rows])}


def _natural_key(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _owners_of_device_events(
    timeline: Timeline,
    of_thread: list[str],
    device_thread: NDArray[np.int16],
    processes: list[str],
    owner: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The process (index into ``processes``) of each device event: by a common label of the names,
    else by the device, of which ranks in order of their process have one each."""
    labels = {_label_of(name): i for i, name in enumerate(processes)}
    if "" not in labels and len(labels) == len(processes):
        return np.array([labels.get(_label_of(name), 0) for name in of_thread])[device_thread]
    numbers = timeline.device.device
    devices = np.unique(numbers)
    if len(devices) == len(processes):
        return np.searchsorted(devices, numbers)
    return _owners_by_correlation(timeline, owner)


def _label_of(name: str) -> str:
    found = _LABEL.match(name)
    return found[0] if found else ""


def _owners_by_correlation(timeline: Timeline, owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """The process whose call with the event's correlation id began last before it."""
    host, device = timeline.host, timeline.device
    found = np.zeros(len(device), np.int64)
    latest = np.full(len(device), np.iinfo(np.int64).min)
    for process in np.unique(owner):
        calls = np.flatnonzero((owner == process) & (host.kind == HostKind.RUNTIME))
        calls = calls[np.argsort(host.corr[calls], kind="stable")]
        if not len(calls):
            continue
        at = np.minimum(np.searchsorted(host.corr[calls], device.corr), len(calls) - 1)
        begin = host.start[calls[at]]
        better = (host.corr[calls[at]] == device.corr) & (begin <= device.start) & (begin > latest)
        found[better], latest[better] = process, begin[better]
    return found
