"""What the threads that feed the device were doing."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import is_among, used_codes
from whyidle.analysis.device_progress import read_progress
from whyidle.analysis.idle_gaps import Launches, copy_direction
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.kernel_classes import classify_kernel
from whyidle.analysis.nesting import Nesting
from whyidle.analysis.producer_waits import find_producer_waits
from whyidle.analysis.save_completion import finishing_waits
from whyidle.analysis.step_detection import StepWindows
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

I64 = NDArray[np.int64]


class HostActivity:
    """What the threads that feed the device were doing, as interval sets."""

    def __init__(self, timeline: Timeline, linked: Launches) -> None:
        self.timeline = timeline
        self.linked = linked
        self.drivers = driver_threads(timeline, linked)
        self.direction = copy_direction(timeline)
        self.collective = collective_kernels(timeline)
        self.progress = read_progress(timeline)

    def rows_of(self, role: Role) -> I64:
        """Rows of a role on the driving threads."""
        rows = self._producer_waits if role == Role.PRODUCER else self.timeline.rows_of(role)
        if role == Role.CHECKPOINT:
            rows = np.union1d(rows, finishing_waits(self.timeline))
        rows = rows[is_among(self.timeline.host.thread[rows], self.drivers)]
        return rows[~self._launches_kernels(rows)] if role == Role.PREPROCESS else rows

    @cached_property
    def _producer_waits(self) -> I64:
        return find_producer_waits(self.timeline)

    def _launches_kernels(self, rows: I64) -> NDArray[np.bool_]:
        """Which events launch kernels: a function that does is not mere preparation on the CPU."""
        host, device = self.timeline.host, self.timeline.device
        calls = self.linked.call[device.kind == DeviceKind.KERNEL]
        calls = calls[calls >= 0]
        found = np.zeros(len(rows), dtype=bool)
        for thread in self.drivers:
            mine = host.thread[rows] == thread
            times = np.sort(host.start[calls[host.thread[calls] == thread]])
            first, last = host.start[rows[mine]], host.end[rows[mine]]
            found[mine] = np.searchsorted(times, last) > np.searchsorted(times, first)
        return found

    def time_in(self, role: Role) -> Intervals:
        """When any driving thread was inside an event of a role."""
        rows = self.rows_of(role)
        return union_of(self.timeline.host.start[rows], self.timeline.host.end[rows])

    def innermost_time(self, kinds: tuple[HostKind, ...], least: int = 0) -> Intervals:
        """When any driving thread was inside an innermost event of these kinds, of at ``least`` so
        many ns."""
        host, rows = self.timeline.host, self._innermost_rows
        rows = rows[is_among(host.kind[rows], kinds) & (host.end[rows] - host.start[rows] >= least)]
        return union_of(host.start[rows], host.end[rows])

    @cached_property
    def _innermost_rows(self) -> I64:
        """Innermost events of the driving threads, annotations aside."""
        host, found = self.timeline.host, [np.empty(0, np.int64)]
        for thread in self.drivers:
            rows = np.flatnonzero((host.thread == thread) & (host.kind != HostKind.ANNOTATION))
            found.append(rows[Nesting(host.start[rows], host.end[rows], ()).is_leaf()])
        return np.concatenate(found)


def driver_threads(timeline: Timeline, linked: Launches) -> NDArray[np.int16]:
    """Threads that launch device work or carry the step marks; all, where neither is recorded."""
    host = timeline.host
    calls = linked.call[linked.has_launch]
    threads, counts = np.unique(host.thread[calls], return_counts=True)
    found = set(threads[counts >= 0.01 * max(counts.sum(), 1)].tolist())
    for role in (Role.PROFILER_STEP, Role.OPTIMIZER_CALL):
        found |= set(used_codes(host.thread[timeline.rows_of(role)]).tolist())
    if not found:
        ops = host.thread[(host.kind == HostKind.OP) | (host.kind == HostKind.RUNTIME)]
        frames = host.thread[host.kind == HostKind.PYTHON]  # of one that only ever waited
        found = set(used_codes(ops if len(ops) else frames).tolist())
    return np.array(sorted(found), dtype=np.int16)


def collective_kernels(timeline: Timeline) -> NDArray[np.bool_]:
    """Whether each device event is a kernel of a collective."""
    device = timeline.device
    table = np.zeros(len(timeline.names) + 1, dtype=bool)
    for i in used_codes(device.name):
        table[i] = classify_kernel(timeline.names[i]).group == "communication"
    return table[device.name] & (device.kind == DeviceKind.KERNEL)


def interrupting_rows(host: HostActivity, steps: StepWindows, role: Role) -> I64:
    """Rows of a role that interrupt steps: what spans a whole step is the loop itself (a script
    whose main function is called ``evaluate``). Steps as the host passes them: while it runs ahead,
    a pause may span several of the device's."""
    rows = host.rows_of(role)
    begin, end = host.timeline.host.start[rows], host.timeline.host.end[rows]
    starts, ends = steps.on_host
    first = np.searchsorted(starts, begin, side="left")
    whole = ends[np.minimum(first, len(steps) - 1)] <= end
    return rows[~((first < len(steps)) & whole)]
