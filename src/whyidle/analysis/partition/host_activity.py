"""Activity of the host threads that feed the device."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.device.device_timestamps import read_progress
from whyidle.analysis.device.kernel_classes import classify_kernel
from whyidle.analysis.integer_codes import is_among, map_names, used_codes
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.generator_calls import GeneratorCalls
from whyidle.analysis.partition.idle_gaps import Launches, copy_direction
from whyidle.analysis.partition.nesting import is_leaf
from whyidle.analysis.partition.producer_waits import find_producer_waits
from whyidle.analysis.partition.save_completion import finishing_waits
from whyidle.analysis.steps.step_detection import StepWindows
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline


class HostActivity:
    """Activity of the threads that feed the device, as interval sets."""

    def __init__(self, timeline: Timeline, linked: Launches) -> None:
        self.timeline = timeline
        self.linked = linked
        self.drivers = driver_threads(timeline, linked)
        self.direction = copy_direction(timeline)
        self.collective = collective_kernels(timeline)
        self.progress = read_progress(timeline)

    def rows_of(self, role: Role) -> I64:
        """Return the rows of a role on the driving threads."""
        rows = self._producer_waits if role == Role.PRODUCER else self.timeline.rows_of(role)
        if role == Role.CHECKPOINT:
            rows = np.union1d(rows, finishing_waits(self.timeline))
        elif role == Role.PREPROCESS:
            rows = np.union1d(rows, self.generators.rows)
        rows = rows[is_among(self.timeline.host.thread[rows], self.drivers)]
        return rows[~self._launches_kernels(rows)] if role == Role.PREPROCESS else rows

    @cached_property
    def generators(self) -> GeneratorCalls:
        """Generators of the user's that batches are taken from."""
        return GeneratorCalls(self.timeline)

    @cached_property
    def _producer_waits(self) -> I64:
        return find_producer_waits(self.timeline)

    def _launches_kernels(self, rows: I64) -> Mask:
        """Which events launch kernels; a function that does is no preprocessing on the CPU."""
        host, device = self.timeline.host, self.timeline.device
        calls = self.linked.call[device.kind == DeviceKind.KERNEL]
        calls = calls[calls >= 0]
        launches = np.zeros(len(rows), dtype=bool)
        for thread in self.drivers:
            own = host.thread[rows] == thread
            times = np.sort(host.start[calls[host.thread[calls] == thread]])
            first, last = host.start[rows[own]], host.end[rows[own]]
            launches[own] = np.searchsorted(times, last) > np.searchsorted(times, first)
        return launches

    def time_in(self, role: Role) -> Intervals:
        """Return when any driving thread was inside an event of a role."""
        rows = self.rows_of(role)
        return union_of(self.timeline.host.start[rows], self.timeline.host.end[rows])

    def innermost_time(self, kinds: tuple[HostKind, ...], least: int = 0) -> Intervals:
        """Return when a driving thread was in an innermost event of ``kinds`` of ``least`` ns."""
        host, rows = self.timeline.host, self.innermost_rows(kinds, least)
        return union_of(host.start[rows], host.end[rows])

    def innermost_rows(self, kinds: tuple[HostKind, ...], least: int = 0) -> I64:
        """Return the innermost events of driving threads of ``kinds`` and at least ``least`` ns."""
        host, rows = self.timeline.host, self._innermost_rows
        return rows[is_among(host.kind[rows], kinds) & (host.end[rows] - host.start[rows] >= least)]

    @cached_property
    def _innermost_rows(self) -> I64:
        host, parts = self.timeline.host, [np.empty(0, np.int64)]
        for thread in self.drivers:
            rows = np.flatnonzero((host.thread == thread) & (host.kind != HostKind.ANNOTATION))
            parts.append(rows[is_leaf(host.start[rows], host.end[rows])])
        return np.concatenate(parts)


def driver_threads(timeline: Timeline, linked: Launches) -> NDArray[np.int16]:
    """Return the threads that launch device work or carry step marks; all without either."""
    host = timeline.host
    calls = linked.call[linked.has_launch]
    threads, counts = np.unique(host.thread[calls], return_counts=True)
    drivers = set(threads[counts >= 0.01 * max(counts.sum(), 1)].tolist())
    for role in (Role.PROFILER_STEP, Role.TRAINING_STEP, Role.OPTIMIZER_CALL):
        drivers |= set(used_codes(host.thread[timeline.rows_of(role)]).tolist())
    if not drivers:
        ops = host.thread[(host.kind == HostKind.OP) | (host.kind == HostKind.RUNTIME)]
        frames = host.thread[host.kind == HostKind.PYTHON]  # of one that only ever waited
        drivers = set(used_codes(ops if len(ops) else frames).tolist())
    return np.array(sorted(drivers), dtype=np.int16)


def collective_kernels(timeline: Timeline) -> Mask:
    """Return whether each device event is a kernel of a collective: by its name, or an unknown name
    on a stream that mostly runs collectives and computes nothing, beside a stream that does."""
    device = timeline.device
    groups = map_names(timeline.names, device.name, lambda name: classify_kernel(name).group, "U16")
    kernels = device.kind == DeviceKind.KERNEL
    sent = (groups == "communication") & kernels
    unknown = (groups == "other") & kernels
    if sent.any() and unknown.any():
        stream = device.device.astype(np.int64) * (1 << 32) + device.stream
        working = stream[kernels & ~sent & ~unknown]
        for own in np.setdiff1d(stream[unknown & np.isin(stream, stream[sent])], working):
            here = (stream == own) & kernels
            length = np.where(here, device.end - device.start, 0)
            if len(working) and length[sent].sum() * 2 > length.sum():
                sent |= here
    return np.asarray(sent)


def interrupting_rows(host: HostActivity, steps: StepWindows, role: Role) -> I64:
    """Return the rows of a role that interrupt steps as the host passes them. An event that spans a
    whole step is the loop itself (a script whose main function is ``evaluate``). Where steps run
    beside the host, it is one that calls a step."""
    rows, events = host.rows_of(role), host.timeline.host
    begin, end = events.start[rows], events.end[rows]
    if len(host.timeline.rows_of(Role.EXECUTION)):
        calls = np.sort(events.start[host.timeline.rows_of(Role.OPTIMIZER)])
        return rows[np.searchsorted(calls, begin) == np.searchsorted(calls, end)]
    starts, ends = steps.on_host
    first = np.searchsorted(starts, begin, side="left")
    spans_step = ends[np.minimum(first, len(steps) - 1)] <= end
    return rows[~((first < len(steps)) & spans_step)]
