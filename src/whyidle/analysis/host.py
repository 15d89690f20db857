"""What the threads that feed the device were doing."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import among, used
from whyidle.analysis.feeding import taking
from whyidle.analysis.gaps import Launches, copy_direction
from whyidle.analysis.intervals import Intervals, union
from whyidle.analysis.kernels import classify
from whyidle.analysis.nesting import Nesting
from whyidle.analysis.progress import progress
from whyidle.analysis.saving import finishing
from whyidle.analysis.steps import Steps
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

I64 = NDArray[np.int64]


class Host:
    """What the threads that feed the device were doing, as interval sets."""

    def __init__(self, timeline: Timeline, linked: Launches) -> None:
        self.timeline = timeline
        self.linked = linked
        self.drivers = driver_threads(timeline, linked)
        self.direction = copy_direction(timeline)
        self.collective = collective_kernels(timeline)
        self.progress = progress(timeline)

    def rows(self, role: Role) -> I64:
        """Rows of a role on the driving threads."""
        rows = self._taking if role == Role.PRODUCER else self.timeline.rows_of(role)
        if role == Role.CHECKPOINT:
            rows = np.union1d(rows, finishing(self.timeline))
        rows = rows[among(self.timeline.host.thread[rows], self.drivers)]
        return rows[~self._launching(rows)] if role == Role.PREPROCESS else rows

    @cached_property
    def _taking(self) -> I64:
        return taking(self.timeline)

    def _launching(self, rows: I64) -> NDArray[np.bool_]:
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

    def during(self, role: Role) -> Intervals:
        """When any driving thread was inside an event of a role."""
        rows = self.rows(role)
        return union(self.timeline.host.start[rows], self.timeline.host.end[rows])

    def leaves(self, kinds: tuple[HostKind, ...], least: int = 0) -> Intervals:
        """When any driving thread was inside an innermost event of these kinds, of at ``least`` so
        many ns."""
        host, rows = self.timeline.host, self._innermost
        rows = rows[among(host.kind[rows], kinds) & (host.end[rows] - host.start[rows] >= least)]
        return union(host.start[rows], host.end[rows])

    @cached_property
    def _innermost(self) -> I64:
        """Innermost events of the driving threads, annotations aside."""
        host, found = self.timeline.host, [np.empty(0, np.int64)]
        for thread in self.drivers:
            rows = np.flatnonzero((host.thread == thread) & (host.kind != HostKind.ANNOTATION))
            found.append(rows[Nesting(host.start[rows], host.end[rows], ()).leaves()])
        return np.concatenate(found)


def driver_threads(timeline: Timeline, linked: Launches) -> NDArray[np.int16]:
    """Threads that launch device work or carry the step marks; all, where neither is recorded."""
    host = timeline.host
    calls = linked.call[linked.known]
    threads, counts = np.unique(host.thread[calls], return_counts=True)
    found = set(threads[counts >= 0.01 * max(counts.sum(), 1)].tolist())
    for role in (Role.PROFILER_STEP, Role.OPTIMIZER_CALL):
        found |= set(used(host.thread[timeline.rows_of(role)]).tolist())
    if not found:
        ops = host.thread[(host.kind == HostKind.OP) | (host.kind == HostKind.RUNTIME)]
        frames = host.thread[host.kind == HostKind.PYTHON]  # of one that only ever waited
        found = set(used(ops if len(ops) else frames).tolist())
    return np.array(sorted(found), dtype=np.int16)


def collective_kernels(timeline: Timeline) -> NDArray[np.bool_]:
    """Whether each device event is a kernel of a collective."""
    device = timeline.device
    table = np.zeros(len(timeline.names) + 1, dtype=bool)
    for i in used(device.name):
        table[i] = classify(timeline.names[i]).group == "communication"
    return table[device.name] & (device.kind == DeviceKind.KERNEL)


def interrupting(host: Host, steps: Steps, role: Role) -> I64:
    """Rows of a role that interrupt steps: what spans a whole step is the loop itself (a script
    whose main function is called ``evaluate``). Steps as the host passes them: while it runs ahead,
    a pause may span several of the device's."""
    rows = host.rows(role)
    begin, end = host.timeline.host.start[rows], host.timeline.host.end[rows]
    starts, ends = steps.on_host
    first = np.searchsorted(starts, begin, side="left")
    whole = ends[np.minimum(first, len(steps) - 1)] <= end
    return rows[~((first < len(steps)) & whole)]
