"""One rank's recording, its steps, and the use of the time in *scope*, the basis of all other
analysis. Shares are of the steps in scope: the steady ones, or the whole recording if it is mostly
a cold start or a wait after the last step."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.host.telemetry_window import TelemetryWindow, telemetry_of
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.source_lines import SourcePlaces
from whyidle.analysis.partition.host_activity import HostActivity
from whyidle.analysis.partition.idle_gaps import Gaps, Launches, idle_gaps, link_launches
from whyidle.analysis.partition.nesting import Nesting
from whyidle.analysis.partition.time_partition import Partition, partition_time
from whyidle.analysis.steps.burst_choice import undo_recording_cost
from whyidle.analysis.steps.step_detection import AFTER, StepWindows, find_steps
from whyidle.model.buckets import BUCKETS, REASONS, bucket_of
from whyidle.model.cause import MOSTLY
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceEvents, DeviceKind, HostKind, Timeline

Scalar = TypeVar("Scalar", bound=np.generic)

LEAST_STEADY = 6
"""steady steps from which a slow start is left out of all shares, as many as the verdict of a
watched run needs: the shortest and the longest of six hold the median of all with 97 %"""
HABIT = 3
"""steps with recompilation from which it is a habit rather than one for evaluation"""
PATIENCE_NS = 20_000_000_000
"""a shorter start-up is not the subject if the steps after it have causes of their own"""
SLOW_SHARE = 0.20
"""steps that do not compute for this share of their time have causes of their own"""
DEVICE_SHARE = 0.02
"""a device with a smaller share of the process's kernels is not one that it computes on"""


class StepScope:
    """One rank's recording over the steps in scope."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.rank = timeline.rank

    @cached_property
    def steps(self) -> StepWindows:
        """Step windows, and which are steady."""
        return find_steps(self.timeline)

    @cached_property
    def launches(self) -> Launches:
        """Which host call launched which device event."""
        return link_launches(self.timeline)

    @cached_property
    def host(self) -> HostActivity:
        """Activity of the launching threads."""
        return HostActivity(self.timeline, self.launches)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that this process computes on, the busiest first."""
        device = self.timeline.device
        ids, counts = np.unique(device.device[device.kind == DeviceKind.KERNEL], return_counts=True)
        used = counts >= DEVICE_SHARE * max(counts.sum(), 1)
        return tuple(int(i) for i in ids[used][np.argsort(-counts[used], kind="stable")])

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """One partition per device, as one process may compute on several."""
        if len(self.devices) < 2:
            return (partition_time(self.timeline, self.steps, self.launches, self.host),)
        return tuple(self._on_device(number) for number in self.devices)

    def _on_device(self, number: int) -> Partition:
        events = self.timeline.device.device == number
        timeline = replace(self.timeline, device=self.timeline.device.take_rows(events))
        linked = Launches(self.launches.call[events], self.launches.delay[events])
        return partition_time(timeline, self.steps, linked)

    @property
    def partition(self) -> Partition:
        """The partition of the window into reasons on the busiest device."""
        return self.partitions[0]

    @cached_property
    def gaps(self) -> Gaps:
        """The device's idle gaps inside the window."""
        return idle_gaps(self.timeline, self.launches, *self.steps.window)

    @property
    def on_cpu(self) -> bool:
        """Whether the job's device is the CPU itself."""
        return self.timeline.info.kind == "cpu" and not (len(self.device) or self.has_no_steps)

    @property
    def device_noun(self) -> str:
        """Noun for the device in sentences."""
        return {"cpu": "CPU", "tpu": "TPU", "other": "device"}.get(self.timeline.info.kind, "GPU")

    @cached_property
    def warm_up(self) -> Intervals:
        """The slow steps at the start; none of a burst, whose first step is not the run's first."""
        first = len(self.warm_up_s)
        return union_of(self.steps.start[:first], self.steps.end[:first])

    @property
    def warm_up_s(self) -> F64:
        """Length of each slow step at the start, s."""
        first = 0 if self.timeline.burst else self.steps.warm_up_count
        return (self.steps.end - self.steps.start)[:first] / 1e9

    @cached_property
    def slow_start(self) -> bool:
        """Whether the slow steps at the start took most of the recording."""
        length = self.steps.end - self.steps.start
        return bool(self.warm_up.total > MOSTLY * length.sum())

    @cached_property
    def cold_start(self) -> bool:
        """Whether the whole recording is in scope because too few steady steps follow a cold start,
        or because of a long start-up or repeated compilation. A start-up is no share of a job that
        a trial cut short."""
        if not self.slow_start:
            return False
        startup = self.partition.parts["startup"].total
        if startup > self.warm_up.total / 2:
            patient = startup >= PATIENCE_NS or not self._slow_steps
            return patient and not self.timeline.process.cut_short
        return int(self.steps.steady.sum()) < LEAST_STEADY or self._compiled_again

    @property
    def _compiled_again(self) -> bool:
        """Whether several of the slow first steps compile what was compiled before."""
        starts = self.timeline.host.start[self.timeline.rows_of(Role.RECOMPILE)]
        starts = starts[self.warm_up.contains_times(starts)]
        return len(np.unique(np.searchsorted(self.steps.start, starts, side="right"))) >= HABIT

    @cached_property
    def _slow_steps(self) -> bool:
        """Whether the device waits long in the steady steps, other than for operator dispatch."""
        steady = union_of(self.steps.start[self.steps.steady], self.steps.end[self.steps.steady])
        work = {"launch"} if self.on_cpu else set()
        waits = [
            (part & steady).total
            for reason, part in self.partition.parts.items()
            if bucket_of(reason) not in ("compute", "unknown") and reason not in work
        ]
        return sum(waits) > SLOW_SHARE * steady.total

    @property
    def has_no_steps(self) -> bool:
        """Whether this is a watched command without known steps."""
        return self.timeline.stepless is not None

    @cached_property
    def left_idle(self) -> bool:
        """Whether the process waited after its last step for most of the recording."""
        length = self.steps.end - self.steps.start
        return self.steps.labels[-1] == AFTER and bool(length[-1] > MOSTLY * length.sum())

    @cached_property
    def steps_in_scope(self) -> Mask:
        """The steps in scope."""
        all_steps = self.cold_start or self.left_idle
        return np.ones(len(self.steps), bool) if all_steps else self.steps.steady

    @cached_property
    def scope(self) -> Intervals:
        """The time in scope."""
        return union_of(self.steps.start[self.steps_in_scope], self.steps.end[self.steps_in_scope])

    @cached_property
    def host_scope(self) -> Intervals:
        """The same steps on the host, which may run ahead of the device."""
        start, end = (edges[self.steps_in_scope] for edges in self.steps.on_host)
        return union_of(start, end)

    @cached_property
    def telemetry(self) -> TelemetryWindow | None:
        """Telemetry of the steps in scope."""
        return telemetry_of(self.timeline, self.scope)

    @property
    def scope_s(self) -> float:
        """Seconds in scope."""
        return self.scope.total / 1e9

    @property
    def step_count(self) -> int:
        """Steps in scope; 1 if no boundary was found."""
        return int(self.steps_in_scope.sum())

    @property
    def step_s(self) -> float:
        """Mean length of a step in scope, s."""
        return self.scope_s / max(self.step_count, 1)

    @cached_property
    def reasons(self) -> dict[str, float]:
        """Share of every reason in scope, without a burst's recording cost; they sum to 1."""
        start, end, total = self.scope.start, self.scope.end, max(self.scope.total, 1)
        shares = {}
        for reason in REASONS:
            lengths = [p.parts[reason].length_inside(start, end).sum() for p in self.partitions]
            shares[reason] = float(np.mean(np.array(lengths) / total))
        context = self.timeline.burst if len(self.timeline.device) else None
        return undo_recording_cost(shares, self.step_s, context) if context else shares

    @cached_property
    def attribution(self) -> dict[str, float]:
        """Share of every bucket in scope; they sum to 1."""
        return {
            bucket: sum(v for reason, v in self.reasons.items() if bucket_of(reason) == bucket)
            for bucket in BUCKETS
        }

    def per_step(self) -> list[dict[str, float]]:
        """Return the bucket shares of each step in scope."""
        start, end = self.steps.start[self.steps_in_scope], self.steps.end[self.steps_in_scope]
        partition_shares = [partition.reason_shares(start, end) for partition in self.partitions]
        mean = {
            reason: np.mean([shares[reason] for shares in partition_shares], axis=0)
            for reason in REASONS
        }
        return [
            {
                bucket: float(sum(mean[r][i] for r in REASONS if bucket_of(r) == bucket))
                for bucket in BUCKETS
            }
            for i in range(self.step_count)
        ]

    def bucket_share(self, name: str) -> float:
        """Return the share of a bucket or a reason."""
        return self.attribution[name] if name in self.attribution else self.reasons[name]

    def time_of(self, *names: str) -> Intervals:
        """Return the time in scope with some buckets or reasons."""
        wanted = [r for r in self.partition.parts if r in names or bucket_of(r) in names]
        parts = [self.partition.parts[reason] for reason in wanted]
        starts = np.concatenate([part.start for part in parts])
        ends = np.concatenate([part.end for part in parts])
        return union_of(starts, ends) & self.scope

    def share_of(self, intervals: Intervals) -> float:
        """Return a set of time as share of the scope (0-1)."""
        return (intervals & self.scope).total / max(self.scope.total, 1)

    @cached_property
    def idle(self) -> Intervals:
        """Time in scope with no activity on the device."""
        return Intervals(self.gaps.start, self.gaps.end) & self.scope

    @cached_property
    def busy_ratio(self) -> float | None:
        """Share of the scope with any device activity; None without device events."""
        return 1.0 - self.share_of(self.idle) if len(self.timeline.device) else None

    @cached_property
    def device_rows(self) -> I64:
        """Device events that start in scope."""
        return np.flatnonzero(self.scope.contains_times(self.timeline.device.start))

    @cached_property
    def kernels(self) -> I64:
        """Kernels that start in scope, as rows of ``timeline.device``."""
        rows = self.device_rows
        return rows[self.timeline.device.kind[rows] == DeviceKind.KERNEL]

    @cached_property
    def direction(self) -> NDArray[np.str_]:
        """Copy direction of every device event: h2d, d2h, d2d, p2p or ""."""
        return self.host.direction

    @property
    def device(self) -> DeviceEvents:
        """The device's events."""
        return self.timeline.device

    def durations_s(self, rows: I64) -> F64:
        """Return the length of device events, s."""
        return (self.device.end[rows] - self.device.start[rows]) / 1e9

    def rows_of(self, role: Role) -> I64:
        """Return the host events in scope with a role."""
        rows = self.timeline.rows_of(role)
        return rows[self.host_scope.contains_times(self.timeline.host.start[rows])]

    @cached_property
    def places(self) -> SourcePlaces:
        """Locates host events: file, line and function."""
        return SourcePlaces(self.timeline, self.rank)

    @cached_property
    def ops(self) -> tuple[I64, dict[int, tuple[I64, Nesting]]]:
        """Operators nested per thread: (all rows, thread -> (rows, nesting))."""
        host = self.timeline.host
        rows = np.flatnonzero(host.kind == HostKind.OP)
        threads = {}
        for thread in used_codes(host.thread[rows]):
            own = rows[host.thread[rows] == thread]
            threads[int(thread)] = own, Nesting.nest_events(host.start[own], host.end[own])
        return rows, threads
