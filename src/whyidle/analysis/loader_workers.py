"""The loader from within: what the step waits for, and where in the user's code that is."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Literal

import numpy as np

from whyidle.analysis import batch_handoff
from whyidle.analysis.cpu_affinity import granted_cores
from whyidle.analysis.memory_pressure import waits_for_memory
from whyidle.analysis.source_places import frame_place, in_library, own_frame
from whyidle.analysis.worker_batches import MOSTLY
from whyidle.analysis.worker_stalls import WorkerStalls
from whyidle.model.diagnosis import Place
from whyidle.model.process_facts import LoaderFacts

LEAST_SHARE = 0.01
"""share of the step below which the loader is not worth a word"""
KEPT_WAITING = 0.2
"""share of a batch's time that its worker waits for a core, from which on cores are short"""
PER_ENOUGH = 2
"""times as many workers as are enough still get their turn soon"""
SMALL_FILE = 256 * 1024
"""files up to this many bytes cost their latency, not their bytes: at 1 GB/s it takes 0.26 ms"""


class LoaderWorkers(WorkerStalls):
    """The loader workers of one rank."""

    @property
    def costly_handoff(self) -> bool:
        """Whether handing batches over is what most of the waiting is for."""
        return batch_handoff.is_costly(self)

    @cached_property
    def ready_share(self) -> float:
        """Share of the step spent in taking batches that were ready when they were asked for."""
        return batch_handoff.ready_share(self)

    @property
    def is_surplus(self) -> bool:
        """Whether there are so many workers that they mostly wait for each other's turn on a core:
        beside those that are enough, as many again keep the cores busy while the first ones wait
        for work or hand it over."""
        turns = self.mean_of("delay") >= MOSTLY * self.batch_time
        return turns and self.count > PER_ENOUGH * self.sufficient_workers

    @cached_property
    def sufficient_workers(self) -> int:
        """Workers that keep the cores busy: one for each, and one for each that waits meanwhile for
        something else, as most batches do. What a crowd holds up now and then is no such wait."""
        made = self.batches_made
        works = np.maximum(np.maximum(made["cpu"], made["process_cpu"]), 1)
        waits = np.maximum(made["end"] - made["start"] - np.maximum(made["delay"], 0) - works, 0)
        each = 1.0 + float(np.median(waits) / np.median(works))
        return max(1, int(self.cores * each))

    @property
    def is_crowded(self) -> bool:
        """Whether workers of several threads each, or far too many workers, crowd the cores."""
        if self.is_surplus:
            return True
        threads = max((worker.threads for worker in self.loading.workers), default=1)
        demand = self.count * threads
        busy = self.other_threads_cpu >= 0.3 * self.mean_of("cpu") or self.short_of_cores
        return threads > 1 and demand > self.cores and busy

    @property
    def is_bound(self) -> bool:
        """Whether something in the process bound workers to some of the cores that it was given,
        and they wait for these."""
        return granted_cores(self.facts, self.own_cores) is not None and self.short_of_cores

    @property
    def short_of_cores(self) -> bool:
        """Whether workers wait for a core while they make a batch."""
        return self.mean_of("delay") >= KEPT_WAITING * self.batch_time

    @property
    def loads_bound(self) -> bool:
        """Whether new workers would be bound so."""
        return granted_cores(self.facts, self.loading.cores) is not None

    @property
    def own_cores(self) -> float | None:
        """Cores that a worker may use, the most of them; None where not told."""
        return max((w.cores for w in self.loading.workers if w.cores is not None), default=None)

    @cached_property
    def is_bursty(self) -> bool:
        """Whether the workers are fast enough on average, and a deeper queue would absorb half of
        the waiting: of that for batches that were not ready, where this is most of it."""
        late = batch_handoff.late_share(self)
        waits = late * self.facts.step_s / max(self.per_step, 1e-9)
        short = self.uncontended_batch_time / max(self.count, 1)
        if late < max(self.ready_share, LEAST_SHARE) or short > self.rest_s / max(
            self.per_step, 1e-9
        ):
            return False
        now = self.simulate_queue(self.depth).others
        return now > 0.3 * waits and self.simulate_queue(4 * self.depth).others <= 0.5 * now

    @cached_property
    def wait_kind(self) -> str | None:
        """What the step waits for: "memory", "handoff", "bound", "crowd", "burst", "small files",
        "cache", "storage" or "work"; None where it hardly waits, or the loader's figures do not
        tell."""
        if not self.is_known or self.waiting_share < LEAST_SHARE:
            return None
        if waits_for_memory(self.facts, self.waiting_share):
            return "memory"
        if self.is_due_to_stops:
            return None  # by whom, the recording does not tell
        if self.is_bound:
            return "bound"
        if self.is_crowded:
            return "crowd"
        if self.is_bursty:
            return "burst"
        if batch_handoff.to_blame(self, self.ready_share):
            return "handoff"
        if not self.is_explained or self.loading.still >= MOSTLY:
            return None  # somebody holds them still, and the recording does not tell who
        return self._storage_kind() if self.waits_for_storage else "work"

    def _storage_kind(self) -> str:
        opens, chars = self.mean_of("opens"), self.mean_of("chars")
        if opens >= MOSTLY * self.mean_of("samples") and chars / max(opens, 1e-9) <= SMALL_FILE:
            return "small files"
        return "cache" if self.reread_share >= MOSTLY else "storage"

    # -- where ------------------------------------------------------------------------------

    @cached_property
    def hottest_line(self) -> tuple[Place, float] | None:
        """The user's own line that workers are at most often, its share of the samples; or None."""
        lines = [own_frame(self.loading.stacks[i]) for i in self.loading.samples["stack"]]
        counted = Counter(line for line in lines if line)
        if not counted:
            return None
        line, count = counted.most_common(1)[0]
        place = frame_place(line, self.facts.rank)
        return (place, count / len(lines)) if place else None

    def places_of(
        self, *keys: Literal["asked", "making", "collating"], workers: bool = True
    ) -> tuple[Place, ...]:
        """Places that the loader names, the user's only; without
        ``workers`` those of the loader that has none."""
        alone = [one for one in self.loading.loaders if not one.workers]
        loader = self.loader if workers else (alone or [LoaderFacts()])[0]
        told = [frame_place(getattr(loader, key) or "", self.facts.rank) for key in keys]
        return tuple(place for place in told if place and not in_library(place))

    @property
    def costliest_places(self) -> tuple[Place, ...]:
        """The line that costs most, else the dataset's method."""
        return (self.hottest_line[0],) if self.hottest_line else self.places_of("making")
