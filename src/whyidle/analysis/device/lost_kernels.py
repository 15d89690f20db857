"""Launches without a kernel: calls while a CUDA graph is captured, which make none, and kernels
that the profiler lost, which leave gaps that are none of the device."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.integer_codes import used_codes
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

LOST = 0.1
"""share of a step's launches without a kernel from which its idle time means nothing; profilers
lose buffers of thousands of events at once, or none"""


def captured_launches(timeline: Timeline) -> I64:
    """Return the launches (host rows) that were captured into a graph instead of run."""
    host, launches = timeline.host, timeline.rows_of(Role.KERNEL_LAUNCH)
    begins, ends = timeline.rows_of(Role.CAPTURE_BEGIN), timeline.rows_of(Role.CAPTURE_END)
    if not len(begins) and not len(ends):
        return np.empty(0, np.int64)
    found = [np.empty(0, np.int64)]
    for thread in used_codes(host.thread[np.concatenate([begins, ends])]):
        edges = [rows[host.thread[rows] == thread] for rows in (begins, ends)]
        times = np.concatenate([host.start[rows] for rows in edges])
        opens = np.repeat([True, False], [len(rows) for rows in edges])
        order = np.argsort(times, kind="stable")
        own = launches[host.thread[launches] == thread]
        last = np.searchsorted(times[order], host.start[own], side="right") - 1
        # before the first edge, a capture runs if that edge ends one
        running = np.where(last >= 0, opens[order][np.maximum(last, 0)], not opens[order][0])
        found.append(own[running])
    return np.sort(np.concatenate(found))


def lost_launches(timeline: Timeline) -> tuple[I64, Mask]:
    """Return the launches (host rows) that should make kernels, and which of these have none."""
    rows = timeline.rows_of(Role.KERNEL_LAUNCH)
    rows = rows[timeline.host.corr[rows] >= 0]
    if len(captured := captured_launches(timeline)):
        rows = np.setdiff1d(rows, captured)
    return rows, ~np.isin(timeline.host.corr[rows], timeline.device.corr)


def why_lost(lost: Mask) -> str:
    """Say why kernels are missing, by which launches have none, in the order of time: the profiler
    starts before it records, stops before the device has finished, or its buffers overflow."""
    kept = np.flatnonzero(~lost)
    if not len(kept):
        return (
            "no kernel was recorded: another profiler held the device's counters, or this process "
            "may not read them"
        )
    before, after = bool(lost[: kept[0]].any()), bool(lost[kept[-1] :].any())
    if int(lost[kept[0] : kept[-1]].sum()) > LOST * lost.sum():
        return "the profiler's buffers overflowed: record fewer steps"
    if before and not after:
        return "the profiler was not yet recording kernels: give its schedule a step of warm-up"
    return "the recording ended before the device was done: synchronise, then stop the profiler"


def find_incomplete(timeline: Timeline, start: I64, end: I64) -> Mask | None:
    """Return the steps (on the host) whose kernels are missing; None if none are."""
    rows, lost = lost_launches(timeline)
    if not lost.any() or not len(timeline.device):
        return None
    step = np.searchsorted(start, timeline.host.start[rows], side="right") - 1
    inside = (step >= 0) & (timeline.host.start[rows] < end[np.maximum(step, 0)])
    launched = np.bincount(step[inside], minlength=len(start))
    missing = np.bincount(step[inside & lost], minlength=len(start))
    incomplete = missing > LOST * np.maximum(launched, 1)
    return incomplete if incomplete.any() else None
