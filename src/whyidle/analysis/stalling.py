"""The step waits for loader workers: how long it does, and would with others, or a deeper queue.

Times are in seconds; shares are of the step (0-1).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from whyidle.analysis.fitting import waiting_workers
from whyidle.analysis.intervals import Intervals, union
from whyidle.analysis.loader import nexts
from whyidle.analysis.making import MOSTLY, Making
from whyidle.analysis.queue import Waited, in_epochs, passed
from whyidle.analysis.restarts import begun_and_ended
from whyidle.analysis.stopping import Stops, stops
from whyidle.model.roles import Role

EXPLAINED = 0.1
"""share of the waiting that the workers' own figures must account for: on a crowded machine
everything takes several times as long, in proportion to what it needs"""

HARDLY = 1.05
"""times the shortest step: what more workers would win is worth none"""


class Stalling(Making):
    """What the batches of one rank's workers cost the step."""

    @cached_property
    def restarts(self) -> Intervals:
        """When new workers started, and those before them ended."""
        return begun_and_ended(self.loading) & self.facts.scope

    @cached_property
    def waiting(self) -> float:
        """Share of the step spent waiting for workers, their starts left out."""
        calls = nexts(self.facts, Role.BATCH_FROM_WORKERS)
        loader = self.facts.part("loader") & union(calls.start, calls.end)
        return self.facts.share_of(loader - self.restarts)

    @property
    def rest(self) -> float:
        """The step without that, s."""
        restart = self.facts.share_of(self.facts.part("loader") & self.restarts)
        return self.facts.step_s * max(0.0, 1.0 - self.waiting - restart)

    @property
    def per_step(self) -> float:
        """Batches taken per step."""
        return len(self.takes) / max(self.facts.step_count, 1)

    def stall(
        self,
        workers: int,
        wall: float | None = None,
        work: float | None = None,
        *,
        worth: float = 1.0,
    ) -> float:
        """P1: what a step would wait for its batches, s.

        ``T^(n) - (T - W)`` with ``T^(n) = max(T - W, s / n, (s_cpu + host) / cores)``: each worker
        makes one batch at a time, and all of them share the cores with the training process. Of
        those that mostly wait, P2 tells what the ends of epochs cost besides, where the loader says
        how many batches an epoch has.

        Args:
            workers: how many.
            wall: a batch's time in its worker, hand-off included, s; None: as measured.
            work: a batch's CPU time, s; None: as measured.
            worth: what each core is worth while all are busy.
        """
        wall = self.wall + self.pickle if wall is None else wall
        work = self.mean("process_cpu") if work is None else work
        threads = (self.loading.threads or 1) if self.facts.on_cpu else 1
        left = max(1.0, self.cores * worth)
        host = self.rest * min(float(threads), left)
        made = self.per_step * wall / max(workers, 1)
        shared = (self.per_step * work + host) / left
        return max(0.0, max(made, shared) - self.rest, self._ends(workers, wall))

    def _ends(self, workers: int, wall: float) -> float:
        """What a step waits where workers that mostly wait begin anew with every epoch, s."""
        batches = self.loader.batches
        if not batches or not self.waits_for_storage:
            return 0.0
        costs = (self.made["end"] - self.made["start"])[np.argsort(self.made["start"])] / 1e9
        between = self.rest / max(self.per_step, 1e-9)
        longer = wall / max(self.wall, 1e-9)
        waited = in_epochs(
            costs * longer, batches, workers=workers, between=between, ahead=self.ahead
        )
        return self.per_step * waited

    def remaining(self, stall: float) -> float:
        """Share of the step still spent waiting when the model's stall shrinks to ``stall``."""
        now = self.stall(self.count)
        return self.waiting * (min(1.0, stall / now) if now > 0.0 else 1.0)

    @cached_property
    def best(self) -> int:
        """The fewest workers with which a step takes hardly longer than with any number: as many as
        there are cores at most, or, where they only wait, as many as there is memory for."""
        most = max(self.count, int(np.ceil(self.cores)))
        if self.waits_for_storage:
            most = max(most, waiting_workers(self.facts, self.count))
        stalls = {n: self.stall(n) for n in range(self.count, most + 1)}
        least = min(stalls.values()) + self.rest
        return next(n for n, stall in stalls.items() if stall + self.rest <= HARDLY * least)

    def replay(self, depth: int) -> Waited:
        """P2: what batches would be waited for, when at most ``depth`` may be ready or in work.
        ``waiting`` leaves out the start of new workers, and so does this."""
        order = np.argsort(self.made["start"], kind="stable")
        made = self.made["end"] - self.made["start"] - np.maximum(self.made["delay"], 0)
        waited = passed(
            made[order] / 1e9 + self.pickle,
            np.isin(self.made["start"][order], self._first),
            workers=self.count,
            depth=depth,
            between=self.rest / max(self.per_step, 1e-9),
        )
        return waited if self.loader.persistent else Waited(0.0, waited.others)

    @property
    def calm(self) -> float:
        """A batch's time in its worker if it never had to wait for a core, s."""
        return self.wall - self.mean("delay") + self.pickle

    @property
    def explained(self) -> bool:
        """Whether workers with the cores to themselves would be waited for as well; if not, what
        slows them down is not in the loader."""
        stall = self.stall(self.count, self.calm)
        return stall >= max(EXPLAINED * self.waiting * self.facts.step_s, 1e-9)

    @cached_property
    def stops(self) -> Stops:
        """How much of the time somebody stopped their processes."""
        return stops(self.facts.outside, [w.pid for w in self.loading.workers if w.pid])

    @property
    def stopped(self) -> bool:
        """Whether workers that nobody stops would be waited for half as long at most."""
        free = self.wall * (1.0 - self.stops.share) + self.pickle
        return self.stops.share > 0.0 and self.remaining(self.stall(self.count, free)) <= (
            MOSTLY * self.waiting
        )
