"""Everything the causes may ask about one rank's recording, computed once and on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.blocking_collectives import held_up
from whyidle.analysis.burst_choice import most_like, with_run_context
from whyidle.analysis.codes import used_codes
from whyidle.analysis.collectives import Collectives, find_collectives
from whyidle.analysis.device_peaks import DevicePeaks, peak_of
from whyidle.analysis.device_waits import DeviceWaits
from whyidle.analysis.evaluation_utilization import EvaluationUtilization, busy_evaluating
from whyidle.analysis.flops import Work, work_of_events
from whyidle.analysis.host_activity import interrupting_rows
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.kernel_classes import KernelClass, classify_kernel
from whyidle.analysis.kernel_launches import KernelLaunches
from whyidle.analysis.loader_workers import LoaderWorkers
from whyidle.analysis.operator_times import OperatorTime, operator_times
from whyidle.analysis.optimizer_work import OptimizerWork, optimizer_work
from whyidle.analysis.rank_signals import signals_of
from whyidle.analysis.step_replay import StepReplay
from whyidle.analysis.step_scope import StepScope
from whyidle.model.roles import Role

Scalar = TypeVar("Scalar", bound=np.generic)
I64 = NDArray[np.int64]


class Facts(StepScope):
    """What one rank's recording says."""

    live: Facts | None = None
    """of a burst: its whole run"""

    # -- device work ------------------------------------------------------------------------

    @cached_property
    def kernel_classes(self) -> dict[int, KernelClass]:
        """Class of every device event's name (by index into ``timeline.names``)."""
        names = used_codes(self.timeline.device.name)
        return {int(i): classify_kernel(self.timeline.names[i]) for i in names}

    @cached_property
    def group(self) -> NDArray[np.str_]:
        """Kernel group of every device event."""
        return self._by_name({i: c.group for i, c in self.kernel_classes.items()}, np.dtype("U16"))

    @cached_property
    def precision(self) -> NDArray[np.str_]:
        """Precision of every device event ("" unknown)."""
        return self._by_name(
            {i: c.precision or "" for i, c in self.kernel_classes.items()}, np.dtype("U5")
        )

    @cached_property
    def uses_tensor_cores(self) -> NDArray[np.bool_]:
        """Whether every device event is matrix work on tensor cores."""
        return self._by_name(
            {i: bool(c.tensor) for i, c in self.kernel_classes.items()}, np.dtype(bool)
        )

    def _by_name(self, values: Mapping[int, object], dtype: np.dtype[Scalar]) -> NDArray[Scalar]:
        table = np.zeros(len(self.timeline.names) + 1, dtype=dtype)
        for i, value in values.items():
            table[i] = value
        return table[self.timeline.device.name]

    @cached_property
    def collectives(self) -> Collectives:
        """The collectives of the whole recording."""
        return find_collectives(self.timeline, self.steps, self.host)

    @cached_property
    def held_up(self) -> Intervals:
        """Exposed communication in scope behind which the next work was queued already."""
        return held_up(self)

    @cached_property
    def work(self) -> Work:
        """FLOPs and bytes of every device event, from recorded shapes; nan where unknown."""
        everything = np.arange(len(self.device))
        return work_of_events(self.timeline, self.launching_op, self.durations_s(everything))

    @cached_property
    def peak(self) -> DevicePeaks | None:
        """The device's peaks; None where it is not in the table."""
        return peak_of(self.timeline.info)

    @cached_property
    def launching_op(self) -> I64:
        """For every device event, the innermost operator that launched it (-1: unknown)."""
        host, calls = self.timeline.host, self.launches.call
        found = np.full(len(calls), -1, dtype=np.int64)
        for thread, (rows, nesting) in self.ops[1].items():
            mine = np.flatnonzero((calls >= 0) & (host.thread[np.maximum(calls, 0)] == thread))
            inner = nesting.innermost_at(host.start[calls[mine]])
            found[mine] = np.where(inner >= 0, rows[inner], -1)
        return found

    # -- what follows ------------------------------------------------------------------------

    @cached_property
    def launching(self) -> KernelLaunches:
        """How the host feeds the device."""
        return KernelLaunches(self)

    @cached_property
    def waits(self) -> DeviceWaits:
        """Where the host waits for the device."""
        return DeviceWaits(self, self.launching)

    @cached_property
    def workers(self) -> LoaderWorkers:
        """The loader from within."""
        return LoaderWorkers(self)

    @cached_property
    def optimizer(self) -> OptimizerWork | None:
        """What the optimizer's steps are made of; None where none is marked."""
        return optimizer_work(self, self.launching)

    @cached_property
    def optimizer_loop(self) -> Intervals:
        """Time in optimizer steps that update one parameter after the other."""
        work = self.optimizer
        loops = work is not None and work.is_replaceable
        return self.launching.optimizer if loops else EMPTY

    @property
    def replay(self) -> StepReplay:
        """The steps in scope, ready to run again with less host time."""
        return self.launching.replay

    @property
    def profiler_share(self) -> float:
        """An estimate of how much of the step the recording itself cost on the host (0-1)."""
        return self.launching.recording_cost

    @cached_property
    def burst(self) -> Facts | None:
        """The recording of every operator in some steps that is most like those in scope."""
        found = most_like(self.timeline.bursts, self.step_s)
        if not found:
            return None
        run = (self.step_s, self.reasons) if self.host.progress.is_sufficient else None
        burst = Facts(
            with_run_context(found[0], self.timeline, self.steps, run, self.evaluation_utilization)
        )
        burst.live = self
        return burst

    @cached_property
    def evaluation_utilization(self) -> EvaluationUtilization | None:
        """How busy a device of which only marks are known was during evaluations; None where that
        is not known, too."""
        rows = interrupting_rows(self.host, self.steps, Role.EVALUATION)
        host = self.timeline.host
        told = self.host.progress.is_sufficient and not len(self.device)
        spans = union_of(host.start[rows], host.end[rows])
        return busy_evaluating(self.timeline, self.steps, spans) if told else None

    @cached_property
    def operators(self) -> list[OperatorTime]:
        """Operators in scope by their own time, the largest first."""
        return operator_times(self)

    @cached_property
    def signals(self) -> frozenset[str]:
        """The evidence this rank has."""
        return signals_of(self)
