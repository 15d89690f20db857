"""Waits of the step for loader workers, now and predicted for other numbers or a deeper queue.
Times are in seconds; shares are of the step (0-1)."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from whyidle.analysis.host.cpu_affinity import kept_waiting, training_cores
from whyidle.analysis.input.batch_waits import find_batch_waits
from whyidle.analysis.input.prefetch_model import QueueWait, simulate_queue, wait_in_epochs
from whyidle.analysis.input.worker_batches import WorkerBatches
from whyidle.analysis.input.worker_capacity import waiting_workers
from whyidle.analysis.input.worker_restarts import restart_windows
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.cause import LEAST_SHARE
from whyidle.model.roles import Role

KEPT_WAITING = 0.2
"""share of a batch's time waiting for a core from which cores are short"""
EXPLAINED = 0.1
"""least share of the waiting that the workers' own figures explain, on crowded machines, too"""

HARDLY = 1.05
"""steps within this factor of the shortest count as equal"""


class WorkerStalls(WorkerBatches):
    """What the batches of one rank's workers cost the step."""

    @cached_property
    def restart_time(self) -> Intervals:
        """When new workers started, and those before them ended."""
        return restart_windows(self.loading) & self.facts.scope

    @cached_property
    def waiting_share(self) -> float:
        """Share of the step spent waiting for workers, without their starts."""
        calls = find_batch_waits(self.facts, Role.BATCH_FROM_WORKERS)
        loader = self.facts.time_of("loader") & union_of(calls.start, calls.end)
        return self.facts.share_of(loader - self.restart_time)

    @property
    def rest_s(self) -> float:
        """The step without that, s."""
        restart = self.facts.share_of(self.facts.time_of("loader") & self.restart_time)
        return self.facts.step_s * max(0.0, 1.0 - self.waiting_share - restart)

    @property
    def per_step(self) -> float:
        """Batches taken per step."""
        return len(self.batches_taken) / max(self.facts.step_count, 1)

    def predict_stall(
        self,
        workers: int,
        wall: float | None = None,
        work: float | None = None,
        *,
        worth: float = 1.0,
    ) -> float:
        """P1: return the step's wait for its batches, s.

        ``T^(n) - (T - W)`` with ``T^(n) = max(T - W, s / n, (s_cpu + host) / cores)``: each worker
        prepares one batch at a time, and all share the cores with the training process. If they
        mostly wait, P2 adds the ends of epochs where the batches per epoch are known. A batch takes
        ``wall`` s in its worker with hand-off and ``work`` s of CPU time (None: as measured);
        ``worth`` is that of each core while all are busy.
        """
        wall = self.batch_time + self.pickle_time if wall is None else wall
        work = self.mean_of("process_cpu") if work is None else work
        threads = (self.loading.threads or 1) if self.facts.on_cpu else 1
        cores = max(1.0, self.cores * worth)
        host = self.rest_s * min(float(threads), cores)
        production = self.per_step * wall / max(workers, 1)
        shared = (self.per_step * work + host) / cores
        return max(0.0, max(production, shared) - self.rest_s, self._epoch_stall(workers, wall))

    def _epoch_stall(self, workers: int, wall: float) -> float:
        batches = self.loader.batches
        if not batches or not self.waits_for_storage:
            return 0.0
        batches_by_start = self.batches_made[np.argsort(self.batches_made["start"])]
        costs = (batches_by_start["end"] - batches_by_start["start"]) / 1e9
        between = self.rest_s / max(self.per_step, 1e-9)
        longer = wall / max(self.batch_time, 1e-9)
        waited = wait_in_epochs(
            costs * longer, batches, workers=workers, between=between, ahead=self.batches_ahead
        )
        return self.per_step * waited

    def remaining_share(self, stall: float) -> float:
        """Return the present waiting share scaled to a stall of ``stall`` in the model."""
        now = self.predict_stall(self.count)
        return self.waiting_share * (min(1.0, stall / now) if now > 0.0 else 1.0)

    @cached_property
    def best_workers(self) -> int:
        """The fewest workers with nearly the shortest step, within cores or memory."""
        most = max(self.count, int(np.ceil(self.cores)))
        if self.waits_for_storage:
            most = max(most, waiting_workers(self.facts, self.count))
        stalls = {n: self.predict_stall(n) for n in range(self.count, most + 1)}
        least = min(stalls.values()) + self.rest_s
        return next(n for n, stall in stalls.items() if stall + self.rest_s <= HARDLY * least)

    def predict_on_full_cores(self, saved: float) -> float:
        """Return the share of the step gained if a batch needs ``saved`` s less of CPU time and the
        job's processes keep the cores that they have; 0 unless workers wait for cores, and the
        training thread does more than for batches."""
        own, kept = training_cores(self.facts), kept_waiting(self.facts)
        short = self.mean_of("delay") >= KEPT_WAITING * self.batch_time
        if own is None or not short or kept <= self.waiting_share:
            return 0.0
        work = own * self.facts.step_s + self.per_step * self.mean_of("process_cpu")
        gained = self.per_step * saved / max(work, 1e-9)
        return min(gained, self.waiting_share + kept)

    @cached_property
    def taking_time(self) -> float:
        """What taking a batch that is ready costs the training process, s: unpacking it, and the
        exchange with its worker; the median, or unpacking alone where none was ready."""
        ready = self.batches_taken[self.batches_taken["ready"] > 0]
        taken = float(np.median(ready["end"] - ready["start"])) / 1e9 if len(ready) else 0.0
        return max(taken, self.unpickle_time)

    def predict_step(self, workers: int, *, free: bool = True, cores: float | None = None) -> float:
        """Return the step's length with so many workers, s, none included, where nobody waits for a
        core longer than all the work takes on the cores.

        Without workers the training thread makes each batch itself, and nothing is handed over.
        With workers it takes each batch, or waits for the slowest of them. If not ``free``, the
        training thread waits for cores as long as now, because others have them; ``cores`` in place
        of those that the job has.
        """
        rest = self.rest_s * (1.0 - kept_waiting(self.facts) if free else 1.0)
        delay = self.mean_of("delay")
        if not workers:
            return rest + self.per_step * (self.batch_time - (delay if free else 0.0))
        taking = self.per_step * self.taking_time
        made = self.per_step * self.uncontended_batch_time / workers
        work = self.per_step * (self.mean_of("process_cpu") + self.pickle_time)
        return max(rest + taking, made, (rest + taking + work) / max(cores or self.cores, 1.0))

    @cached_property
    def better_without(self) -> bool:
        """Whether the step is shorter without workers than with fewer, as many or more of them.
        What the present ones cost beyond the model (they compete with the training process; not
        their starts) is shared among them."""
        if not self.is_known or self.waiting_share + kept_waiting(self.facts) < LEAST_SHARE:
            return False
        now = self.rest_s + self.waiting_share * self.facts.step_s
        each = max(0.0, now - self.predict_step(self.count)) / max(self.count, 1)
        others = [self.predict_step(n) + n * each for n in range(1, self.best_workers + 1)]
        return HARDLY * self.predict_step(0) <= min(*others, self.facts.step_s)

    def simulate_queue(self, depth: int) -> QueueWait:
        """P2: return the waits for batches with another queue ``depth``."""
        order = np.argsort(self.batches_made["start"], kind="stable")
        batches = self.batches_made
        lengths = batches["end"] - batches["start"] - np.maximum(batches["delay"], 0)
        waited = simulate_queue(
            lengths[order] / 1e9 + self.pickle_time,
            np.isin(self.batches_made["start"][order], self._epoch_starts),
            workers=self.count,
            depth=depth,
            between=self.rest_s / max(self.per_step, 1e-9),
        )
        return waited if self.loader.persistent else QueueWait(0.0, waited.others)

    @property
    def uncontended_batch_time(self) -> float:
        """A batch's time in its worker without waits for a core, s."""
        return self.batch_time - self.mean_of("delay") + self.pickle_time

    @property
    def is_explained(self) -> bool:
        """Whether workers would be waited for as well if no other program used the cores."""
        stall = self.predict_stall(self.count, self.uncontended_batch_time)
        rest, own = self.rest_s * (1.0 - kept_waiting(self.facts)), training_cores(self.facts)
        rest = rest if own is None else min(rest, own * self.facts.step_s)
        made = self.per_step * self.uncontended_batch_time / max(self.count, 1)
        shared = (rest + self.per_step * self.mean_of("process_cpu")) / max(self.cores, 1.0)
        stall = max(stall, made - rest, shared - rest)
        return stall >= max(EXPLAINED * self.waiting_share * self.facts.step_s, 1e-9)
