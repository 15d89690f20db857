"""Everything the causes may ask about one rank's recording, computed once and on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.bursts import beside, most_like
from whyidle.analysis.codes import used
from whyidle.analysis.collectives import Collectives, collectives
from whyidle.analysis.evaluating import Busy, busy_evaluating
from whyidle.analysis.flops import Work, work_of_events
from whyidle.analysis.holding import held_up
from whyidle.analysis.host import interrupting
from whyidle.analysis.intervals import EMPTY, Intervals, union
from whyidle.analysis.kernels import KernelClass, classify
from whyidle.analysis.launching import Launching
from whyidle.analysis.operators import Operator, operators
from whyidle.analysis.optimizers import OptimizerWork, optimizer_work
from whyidle.analysis.peaks import Peak, peak_of
from whyidle.analysis.replay import Replay
from whyidle.analysis.scoped import Scoped
from whyidle.analysis.signals import signals_of
from whyidle.analysis.waits import Waits
from whyidle.analysis.workers import Workers
from whyidle.model.roles import Role

Scalar = TypeVar("Scalar", bound=np.generic)
I64 = NDArray[np.int64]


class Facts(Scoped):
    """What one rank's recording says."""

    live: Facts | None = None
    """of a burst: its whole run"""

    # -- device work ------------------------------------------------------------------------

    @cached_property
    def classes(self) -> dict[int, KernelClass]:
        """Class of every device event's name (by index into ``timeline.names``)."""
        names = used(self.timeline.device.name)
        return {int(i): classify(self.timeline.names[i]) for i in names}

    @cached_property
    def group(self) -> NDArray[np.str_]:
        """Kernel group of every device event."""
        return self._by_name({i: c.group for i, c in self.classes.items()}, np.dtype("U16"))

    @cached_property
    def precision(self) -> NDArray[np.str_]:
        """Precision of every device event ("" unknown)."""
        return self._by_name(
            {i: c.precision or "" for i, c in self.classes.items()}, np.dtype("U5")
        )

    @cached_property
    def tensor(self) -> NDArray[np.bool_]:
        """Whether every device event is matrix work on tensor cores."""
        return self._by_name({i: bool(c.tensor) for i, c in self.classes.items()}, np.dtype(bool))

    def _by_name(self, values: Mapping[int, object], dtype: np.dtype[Scalar]) -> NDArray[Scalar]:
        table = np.zeros(len(self.timeline.names) + 1, dtype=dtype)
        for i, value in values.items():
            table[i] = value
        return table[self.timeline.device.name]

    @cached_property
    def collectives(self) -> Collectives:
        """The collectives of the whole recording."""
        return collectives(self.timeline, self.steps, self.host)

    @cached_property
    def held_up(self) -> Intervals:
        """Exposed communication in scope behind which the next work was queued already."""
        return held_up(self)

    @cached_property
    def work(self) -> Work:
        """FLOPs and bytes of every device event, from recorded shapes; nan where unknown."""
        everything = np.arange(len(self.device))
        return work_of_events(self.timeline, self.launching_op, self.seconds(everything))

    @cached_property
    def peak(self) -> Peak | None:
        """The device's peaks; None where it is not in the table."""
        return peak_of(self.timeline.info)

    @cached_property
    def launching_op(self) -> I64:
        """For every device event, the innermost operator that launched it (-1: unknown)."""
        host, calls = self.timeline.host, self.launches.call
        found = np.full(len(calls), -1, dtype=np.int64)
        for thread, (rows, nesting) in self.ops[1].items():
            mine = np.flatnonzero((calls >= 0) & (host.thread[np.maximum(calls, 0)] == thread))
            inner = nesting.innermost(host.start[calls[mine]])
            found[mine] = np.where(inner >= 0, rows[inner], -1)
        return found

    # -- what follows ------------------------------------------------------------------------

    @cached_property
    def launching(self) -> Launching:
        """How the host feeds the device."""
        return Launching(self)

    @cached_property
    def waits(self) -> Waits:
        """Where the host waits for the device."""
        return Waits(self, self.launching)

    @cached_property
    def workers(self) -> Workers:
        """The loader from within."""
        return Workers(self)

    @cached_property
    def optimizer(self) -> OptimizerWork | None:
        """What the optimizer's steps are made of; None where none is marked."""
        return optimizer_work(self, self.launching)

    @cached_property
    def optimizer_loop(self) -> Intervals:
        """Time in optimizer steps that update one parameter after the other."""
        work = self.optimizer
        loops = work is not None and work.replaceable
        return self.launching.optimizer if loops else EMPTY

    @property
    def replay(self) -> Replay:
        """The steps in scope, ready to run again with less host time."""
        return self.launching.replay

    @property
    def profiler_share(self) -> float:
        """An estimate of how much of the step the recording itself cost on the host (0-1)."""
        return self.launching.recorded

    @cached_property
    def burst(self) -> Facts | None:
        """The recording of every operator in some steps that is most like those in scope."""
        found = most_like(self.timeline.bursts, self.step_s)
        if not found:
            return None
        run = (self.step_s, self.reasons) if self.host.progress.told else None
        burst = Facts(beside(found[0], self.timeline, self.steps, run, self.evaluating))
        burst.live = self
        return burst

    @cached_property
    def evaluating(self) -> Busy | None:
        """How busy a device of which only marks are known was during evaluations; None where that
        is not known, too."""
        rows = interrupting(self.host, self.steps, Role.EVALUATION)
        host = self.timeline.host
        told = self.host.progress.told and not len(self.device)
        spans = union(host.start[rows], host.end[rows])
        return busy_evaluating(self.timeline, self.steps, spans) if told else None

    @cached_property
    def operators(self) -> list[Operator]:
        """Operators in scope by their own time, the largest first."""
        return operators(self)

    @cached_property
    def signals(self) -> frozenset[str]:
        """The evidence this rank has."""
        return signals_of(self)
