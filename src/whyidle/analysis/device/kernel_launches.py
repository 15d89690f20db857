"""How the host feeds the device: launches per step, queue depth, run-ahead, and what fills the
host's time between launches."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.input.batch_waits import find_batch_waits, waited_for_worker
from whyidle.analysis.integer_codes import is_among, used_codes
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.partition.queue_refills import PAUSE_NS
from whyidle.analysis.recording_overhead import measured_share, share_of_recording
from whyidle.analysis.steps.step_replay import Saved, StepReplay
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind

FULL_QUEUE = 1000
BLOCKED_NS = 20_000
"""a longer launch with ``FULL_QUEUE`` others outstanding was blocked (limit 1024, HTA)"""
OTHER_WORK = (
    Role.LOADER,
    Role.PREPROCESS,
    Role.CHECKPOINT,
    Role.EVALUATION,
    Role.LOGGING,
    Role.GC,
    Role.COMPILE,
    Role.ALLOCATOR,
    Role.COLLECTIVE_WAIT,
)
"""roles of host time that does not feed the device"""
MISSING = 0.1
"""share of the step in ``contradiction`` from which a recording counts as a sample"""
RECORDING = (0.5, 1.0, 1.5)
"""how far the estimated cost of recording may be off: lower bound, expected, upper bound"""
MOST_RECORDING = 0.6
"""largest share of the host's time attributed to recording"""


class KernelLaunches:
    """One rank's launches in scope."""

    def __init__(self, facts: StepScope) -> None:
        self._facts = facts

    @cached_property
    def replay(self) -> StepReplay:
        """The steps in scope, ready to replay with less host time."""
        return replay_of(self._facts)

    @cached_property
    def recording_cost(self) -> float:
        """Estimated share of the step that the recording cost on the host (0-1)."""
        return share_of_recording(self._facts)

    @property
    def is_cost_measured(self) -> bool:
        """Whether unrecorded steps around the recorded ones measure that cost."""
        return measured_share(self._facts) > 0.0

    @cached_property
    def kernels(self) -> I64:
        """Kernels in scope whose launch is known (rows of the device's events)."""
        rows = self._facts.kernels
        return rows[self._facts.launches.call[rows] >= 0]

    @cached_property
    def calls(self) -> I64:
        """The calls that launched them, each once (rows of the host's events)."""
        return used_codes(self._facts.launches.call[self.kernels])

    @property
    def per_step(self) -> float:
        """Launch calls per step."""
        return len(self.calls) / max(self._facts.step_count, 1)

    @cached_property
    def call_s(self) -> float:
        """Median length of a launch call, s (nan without any)."""
        host = self._facts.timeline.host
        length = host.end[self.calls] - host.start[self.calls]
        return float(np.median(length) / 1e9) if len(length) else float("nan")

    @cached_property
    def delay_s(self) -> float:
        """Median time from launch call to kernel start, s: the run-ahead (nan without any)."""
        delay = self._facts.launches.delay[self.kernels]
        return float(np.median(delay) / 1e9) if len(delay) else float("nan")

    def queue_depth(self, times: I64) -> I64:
        """Return how many kernels were launched but not finished at each time."""
        host, device, linked = self._facts.timeline.host, self._facts.device, self._facts.launches
        rows = np.flatnonzero((linked.call >= 0) & (device.kind == DeviceKind.KERNEL))
        called = np.sort(host.start[linked.call[rows]])
        ended = np.sort(device.end[rows])
        before = np.searchsorted(called, times, side="left")
        return (before - np.searchsorted(ended, times, side="right")).astype(np.int64)

    @cached_property
    def starved_share(self) -> float:
        """Share of launches that found the queue empty (0 without any launch)."""
        if not len(self.calls):
            return 0.0
        return float((self.queue_depth(self._facts.timeline.host.start[self.calls]) <= 0).mean())

    @cached_property
    def blocking_share(self) -> float:
        """Share of kernels that had ended before their launch call returned (0 without any)."""
        if not len(self.kernels):
            return 0.0
        host, call = self._facts.timeline.host, self._facts.launches.call[self.kernels]
        return float((host.end[call] >= self._facts.device.end[self.kernels]).mean())

    @property
    def is_sampled(self) -> bool:
        """Whether so many events are missing that quiet periods mean nothing."""
        return self._facts.bucket_share("contradiction") > MISSING

    @cached_property
    def framework(self) -> Intervals:
        """When a driving thread was inside an operator or a runtime call."""
        host = self._facts.timeline.host
        rows = is_among(host.kind, (HostKind.OP, HostKind.RUNTIME))
        rows &= is_among(host.thread, self._facts.host.drivers)
        return union_of(host.start[rows], host.end[rows]) & self._facts.scope

    @cached_property
    def feeding_time(self) -> Intervals:
        """Time in scope in which the host worked towards the next launch, without collectives."""
        feeding = self._facts.scope
        for role in OTHER_WORK:
            feeding = feeding - self._facts.host.time_in(role)
        host = self._facts.timeline.host
        calls = self._facts.rows_of(Role.COLLECTIVE_CALL)
        feeding = feeding - union_of(host.start[calls], host.end[calls])
        return feeding - self.replay.waiting

    @cached_property
    def pauses(self) -> Intervals:
        """Long periods of Python without any operator, between launches."""
        quiet = self.feeding_time - self.framework
        return quiet.select(quiet.length >= PAUSE_NS)

    @cached_property
    def optimizer(self) -> Intervals:
        """Time inside ``Optimizer.step``."""
        rows = self._facts.rows_of(Role.OPTIMIZER)
        host = self._facts.timeline.host
        return union_of(host.start[rows], host.end[rows]) & self._facts.scope

    @cached_property
    def dispatch_time(self) -> Intervals:
        """Operator dispatch and kernel launches, without pauses."""
        return self.feeding_time - self.pauses

    def exposed_share(self, parts: Intervals, *reasons: str) -> float:
        """Return the share of the step (0-1) in which the device lacks launches in ``parts``."""
        return self._facts.share_of(self._facts.time_of(*(reasons or ("host",))) & parts)

    def without_recording(self, scale: float, apart: Intervals = EMPTY) -> Saved:
        """Return the host without ``scale`` times the cost of recording, except in ``apart``."""
        starts = self._recorded_starts
        share = min(self.recording_cost * scale, MOST_RECORDING * max(self._active_share, 1e-9))
        cost = share * self._facts.scope.total / max(len(starts), 1)
        starts = starts[~apart.contains_times(starts)]
        return self.replay.less_each(starts, cost)

    @cached_property
    def _recorded_starts(self) -> I64:
        """When the recorded events of driving threads in scope begin, ns."""
        facts, host = self._facts, self._facts.timeline.host
        driving = facts.scope.contains_times(host.start) & is_among(host.thread, facts.host.drivers)
        return host.start[driving & (host.kind != HostKind.ANNOTATION)]

    @cached_property
    def _active_share(self) -> float:
        return self._facts.share_of(self.feeding_time)


def wait_rows(facts: StepScope) -> I64:
    """Return host calls that may wait for the device: synchronisations, copies, frees."""
    crossing = np.isin(facts.direction, ("h2d", "d2h"))
    calls = facts.launches.call[crossing]
    rows = [facts.host.rows_of(Role.SYNC), calls[calls >= 0], facts.host.rows_of(Role.ALLOCATOR)]
    return np.unique(np.concatenate([*rows, blocked_launches(facts)]))


def blocked_launches(facts: StepScope) -> I64:
    """Return launches that waited for room: the queue was full, and they took unusually long."""
    host, device = facts.timeline.host, facts.device
    known = facts.launches.has_launch
    calls, launches = np.unique(facts.launches.call[known], return_counts=True)
    if not len(calls) or launches.max() > 1:  # a graph's work is one entry in the queue
        return np.empty(0, dtype=np.int64)
    begin, length = host.start[calls], host.end[calls] - host.start[calls]
    ended = np.searchsorted(np.sort(device.end[known]), begin, side="right")
    queued = np.arange(len(calls)) - ended
    return calls[(queued >= FULL_QUEUE) & (length > BLOCKED_NS)]


def replay_of(facts: StepScope, waits: I64 | None = None, *, patient: bool = False) -> StepReplay:
    """Return a replay of the steps in scope with additional ``waits`` (host rows). With
    ``patient``, every batch slower than a likely hand-off counts as waited for."""
    scope = facts.scope
    window = (int(scope.start[0]), int(scope.end[-1])) if len(scope) else (0, 0)
    rows = wait_rows(facts) if waits is None else np.union1d(wait_rows(facts), waits)
    batches = find_batch_waits(facts, Role.BATCH_FROM_WORKERS)
    fixed = batches.rows[waited_for_worker(facts, batches, doubtful=patient)]
    return StepReplay(facts.timeline, facts.launches, rows, facts.host.drivers, window, fixed=fixed)
