"""Checks that a recording obeys physics, before anything is concluded from it. What cannot be is
mended where that is safe, and noted in any case: a kernel that runs into later kernels of its
stream, an end long after all other events, correlation ids that name several calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.model.cause import MOSTLY
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

FAR = 10
"""times the usual length of a kernel of its name: its tensors are not that much larger"""


def check_recordings(timelines: Iterable[Timeline]) -> list[Timeline]:
    """Return the recordings mended, with those of further processes in the same file."""
    return [mend_recording(each) for one in timelines for each in (one, *one.others)]


def mend_recording(timeline: Timeline) -> Timeline:
    """Return the recording with what physics forbids mended, and noted in its source."""
    if timeline.source.format == "probe":
        return timeline
    notes: list[str] = []
    for mend in (_separate_reused_ids, _clip_overlapping_kernels, _clip_endless_events):
        timeline = mend(timeline, notes) if len(timeline.device) else timeline
    if not notes and not timeline.others:
        return timeline
    source = replace(timeline.source, notes=(*timeline.source.notes, *notes))
    return replace(timeline, source=source, others=())


def _separate_reused_ids(timeline: Timeline, notes: list[str]) -> Timeline:
    """Give each launch an id of its own. Ids that name several launches are matched in order, as a
    device runs what it is given; without a match in number, an event belongs to the last call
    before it, unless the id stands for most calls and so means nothing."""
    host, device = timeline.host, timeline.device
    calls = timeline.rows_of(Role.LAUNCH_CALL)
    calls = calls[(host.kind[calls] == HostKind.RUNTIME) & (host.corr[calls] >= 0)]
    ordered = np.sort(host.corr[calls])
    if not (ordered[1:] == ordered[:-1]).any():
        return timeline
    ids, counts = np.unique(host.corr[calls], return_counts=True)
    reused = np.intersect1d(ids[counts > 1], device.corr)
    if not len(reused):
        return timeline
    host_ids, device_ids = host.corr.copy(), device.corr.copy()
    known = np.concatenate([host.corr, device.corr])
    following = int(known[known < 1 << 62].max(initial=0)) + 1  # beyond, ids would overflow
    dropped = 0
    for number in reused:
        own = calls[host.corr[calls] == number]
        events = np.flatnonzero(device.corr == number)
        fresh = following + np.arange(len(own))
        following += len(own)
        host_ids[own] = fresh
        if len(own) == len(events):
            device_ids[events] = fresh
        elif len(own) <= MOSTLY * len(calls):
            before = np.searchsorted(host.start[own], device.start[events], side="right") - 1
            device_ids[events] = np.where(before >= 0, fresh[np.maximum(before, 0)], -1)
        else:
            device_ids[events] = -1
            dropped += len(events)
    shared = int(counts[counts > 1].sum())
    text = f"{len(reused)} correlation ids name several launches ({shared} in all)"
    notes.append(
        f"{text}; they were matched in their order"
        if not dropped
        else f"{text}; {dropped} device events could not be matched"
    )
    # calls that launch nothing keep ids that nothing else has now
    return replace(
        timeline, host=replace(host, corr=host_ids), device=replace(device, corr=device_ids)
    )


def _clip_overlapping_kernels(timeline: Timeline, notes: list[str]) -> Timeline:
    """Shorten kernels that outlast a later one of their stream. Streams run one kernel after the
    other; only kernels of one launch, as of a graph, may run side by side, and the next one may
    begin early to load its code."""
    device, graph = timeline.device, _is_in_graph(timeline)
    order = np.lexsort((device.start, device.stream, device.device))
    order = order[(device.kind[order] == DeviceKind.KERNEL) & ~graph[order]]
    first, second = order[:-1], order[1:]
    follows = (device.stream[first] == device.stream[second]) & (device.stream[first] >= 0)
    follows &= device.device[first] == device.device[second]
    follows &= device.end[second] > device.start[second]
    ends, wrong = device.end.copy(), np.zeros(len(device), dtype=bool)
    while (outlasts := follows & (ends[first] > ends[second])).any():
        ends[first[outlasts]] = device.start[second[outlasts]]
        wrong[first[outlasts]] = True
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return timeline
    notes.append(
        f"{len(rows)} kernels end after later kernels of their stream, which is impossible; they "
        "were shortened"
    )
    return _with_ends(timeline, rows, np.minimum(ends[rows], _usual_ends(timeline, rows)))


def _usual_ends(timeline: Timeline, rows: I64) -> I64:
    """When events would end if they took as long as others of their name do."""
    device = timeline.device
    length, right = device.end - device.start, np.ones(len(device), dtype=bool)
    right[rows] = False
    usual = np.full(len(rows), np.iinfo(np.int64).max // 2)
    for i, row in enumerate(rows):
        alike = length[right & (device.name == device.name[row])]
        if len(alike):
            usual[i] = int(np.median(alike))
    return device.start[rows] + usual


def _is_in_graph(timeline: Timeline) -> Mask:
    """Which device events share their launch with others."""
    corr = timeline.device.corr
    ids, index, counts = np.unique(corr, return_inverse=True, return_counts=True)
    return np.asarray((counts[index] > 1) & (ids[index] >= 0))


def _clip_endless_events(timeline: Timeline, notes: list[str]) -> Timeline:
    """Shorten device events that outlast everything else by more than the whole recording, and
    others of their name by far. A profiler has the end of a kernel only once it has ended."""
    host, device = timeline.host, timeline.device
    low = min(int(events.start.min()) for events in (host, device) if len(events))
    high = max(int(events.start.max()) for events in (host, device) if len(events))
    if len(host):
        high = max(high, min(int(host.end.max()), 2 * high - low))
    rows = np.flatnonzero(device.end - high > max(high - low, 1))
    usual = _usual_ends(timeline, rows) - device.start[rows]
    rows = rows[(device.end - device.start)[rows] > FAR * usual]
    if not len(rows):
        return timeline
    notes.append(
        f"{len(rows)} device events last longer than the whole recording, which is impossible; "
        "they were shortened"
    )
    return _with_ends(timeline, rows, _usual_ends(timeline, rows))


def _with_ends(timeline: Timeline, rows: I64, limits: I64) -> Timeline:
    ends = timeline.device.end.copy()
    ends[rows] = np.maximum(limits, timeline.device.start[rows])
    return replace(timeline, device=replace(timeline.device, end=ends))
