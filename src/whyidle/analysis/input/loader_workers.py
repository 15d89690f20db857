"""Loader workers from inside: what the step waits for, and where in the user's code."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Literal

import numpy as np

from whyidle.analysis.arrays import Mask
from whyidle.analysis.host.cpu_affinity import granted_cores
from whyidle.analysis.input.worker_stalls import KEPT_WAITING, WorkerStalls
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.source_lines import frame_place, in_library, own_frame
from whyidle.analysis.memory.memory_pressure import waits_for_memory
from whyidle.model.cause import LEAST_SHARE, MOSTLY
from whyidle.model.diagnosis import Place
from whyidle.model.process_facts import LoaderFacts

PER_ENOUGH = 2
"""up to this multiple of the sufficient number, workers still get their turn soon"""
COPIED_BYTES_PER_S = 1e8
"""rate of packing above which it copies tensors: into new pages of shared memory 0.6 GB/s or more,
while Python objects are pickled at some 10 MB/s (Python 3.11 on a virtual machine)"""
SMALL_FILE = 256 * 1024
"""files up to this many bytes cost latency, not bandwidth: 0.26 ms at 1 GB/s"""
READY = 0.15
"""share of the step from which taking ready batches is blamed on the hand-off; from here on peers
call waiting for data critical, and short steps normally have less"""
FEW_TENSORS = 4
"""batches of so few tensors blame the hand-off only if packing and unpacking are costly"""


def blames_handoff(workers: WorkerStalls, ready: float) -> bool:
    """Return whether batches are waited for during hand-off. ``ready`` is from ``ready_share``."""
    unpacking = workers.unpickle_time * workers.per_step / max(workers.facts.step_s, 1e-9)
    # batches of few tensors wait for a busy worker rather than for the hand-off
    light = 0 < (workers.loading.tensors or 0) <= FEW_TENSORS and unpacking < MOSTLY * ready
    mostly = ready >= max(READY, MOSTLY * workers.waiting_share)
    return (mostly and not light) or is_costly(workers)


def is_costly(workers: WorkerStalls) -> bool:
    """Return whether most of the waiting is for packing and unpacking. The hand-off must cost as
    much as producing the batches, or one side half of it all."""
    unpacking = workers.unpickle_time * workers.per_step
    production = workers.predict_stall(workers.count, workers.uncontended_batch_time)
    packing_share = workers.pickle_time / max(workers.uncontended_batch_time, 1e-9)
    handoff = unpacking + production * min(1.0, packing_share)
    enough = unpacking + production >= 0.3 * workers.waiting_share * workers.facts.step_s
    preparation = workers.mean_of("cpu") + workers.storage_wait
    packing, serial = workers.pickle_time, workers.unpickle_time * workers.count
    either = 2 * max(packing, serial) >= preparation + packing
    enough &= packing + serial >= preparation or either
    return enough and handoff >= MOSTLY * (unpacking + production) > 0.0


def ready_share(workers: WorkerStalls) -> float:
    """Return the share of the step spent taking batches that were ready when requested, without the
    time that production needs anyway. A batch counts as ready once queued, although a thread of its
    worker still has to pack it."""
    taking_share = _taking_share(workers, _surely_ready(workers))
    production = workers.predict_stall(workers.count, workers.uncontended_batch_time)
    production /= max(workers.facts.step_s, 1e-9)
    return max(0.0, min(taking_share, workers.waiting_share - production))


def late_share(workers: WorkerStalls) -> float:
    """Return the share of the step spent taking batches that were not ready."""
    return _taking_share(workers, ~_surely_ready(workers))


def _surely_ready(workers: WorkerStalls) -> Mask:
    others = workers.depth - workers.depth // max(workers.count, 1)
    return np.asarray(workers.batches_taken["ready"] > others)


def _taking_share(workers: WorkerStalls, mask: Mask) -> float:
    takes = workers.batches_taken[mask]
    taken = union_of(takes["start"], takes["end"]) - workers.restart_time
    return workers.facts.share_of(workers.facts.time_of("loader") & taken)


class LoaderWorkers(WorkerStalls):
    """The loader workers of one rank."""

    @property
    def costly_handoff(self) -> bool:
        """Whether most of the waiting is for the hand-off of batches."""
        return is_costly(self)

    @cached_property
    def ready_share(self) -> float:
        """Share of the step spent taking batches that were ready when requested."""
        return ready_share(self)

    @property
    def is_lean(self) -> bool:
        """Whether batches are so few tensors that they cannot be passed on much faster."""
        return 0 < (self.loading.tensors or 0) <= FEW_TENSORS

    @property
    def mostly_packs(self) -> bool:
        """Whether workers of one thread each crowd the cores with packing large tensors more than
        with making them: fewer workers would pack as much."""
        copied = (self.loading.batch_bytes or 0) >= COPIED_BYTES_PER_S * self.pickle_time
        threads = max((worker.threads for worker in self.loading.workers), default=1)
        work = max(self.mean_of("process_cpu"), self.mean_of("cpu"))
        return copied and threads == 1 and self.pickle_time >= work and self.short_of_cores

    @property
    def is_surplus(self) -> bool:
        """Whether so many workers mostly wait for each other's turn on a core. As many again as
        suffice are useful while the first ones wait."""
        waits_for_turn = self.mean_of("delay") >= MOSTLY * self.batch_time
        return waits_for_turn and self.count > PER_ENOUGH * self.sufficient_workers

    @cached_property
    def sufficient_workers(self) -> int:
        """Workers that keep the cores busy: one per core, and more for the time that a median batch
        waits for something else."""
        batches = self.batches_made
        works = np.maximum(np.maximum(batches["cpu"], batches["process_cpu"]), 1)
        waits = np.maximum(
            batches["end"] - batches["start"] - np.maximum(batches["delay"], 0) - works, 0
        )
        per_core = 1.0 + float(np.median(waits) / np.median(works))
        return max(1, int(self.cores * per_core))

    @property
    def is_crowded(self) -> bool:
        """Whether workers with several threads each, or far too many workers, crowd the cores."""
        if self.is_surplus:
            return True
        threads = max((worker.threads for worker in self.loading.workers), default=1)
        demand = self.count * threads
        busy = self.other_threads_cpu >= 0.3 * self.mean_of("cpu") or self.short_of_cores
        return threads > 1 and demand > self.cores and busy

    @property
    def is_bound(self) -> bool:
        """Whether workers wait for cores after something restricted them to fewer than granted."""
        return granted_cores(self.facts, self.own_cores) is not None and self.short_of_cores

    @property
    def short_of_cores(self) -> bool:
        """Whether workers wait for a core while they prepare a batch."""
        return self.mean_of("delay") >= KEPT_WAITING * self.batch_time

    @property
    def loads_bound(self) -> bool:
        """Whether new workers would be restricted in the same way."""
        return granted_cores(self.facts, self.loading.cores) is not None

    @property
    def own_cores(self) -> float | None:
        """Most cores that a worker may use; None where unknown."""
        return max((w.cores for w in self.loading.workers if w.cores is not None), default=None)

    @cached_property
    def is_bursty(self) -> bool:
        """Whether workers are fast enough on average, and a deeper queue would halve the
        waiting."""
        late = late_share(self)
        waits = late * self.facts.step_s / max(self.per_step, 1e-9)
        short = self.uncontended_batch_time / max(self.count, 1)
        room = self.rest_s / max(self.per_step, 1e-9)
        if late < max(self.ready_share, LEAST_SHARE) or short > room:
            return False
        now = self.simulate_queue(self.depth).others
        return now > 0.3 * waits and self.simulate_queue(4 * self.depth).others <= 0.5 * now

    @cached_property
    def wait_kind(self) -> str | None:
        """What the step waits for: "memory", "handoff", "bound", "crowd", "burst", "small files",
        "storage" or "work"; None where unknown."""
        if not self.is_known or (self.waiting_share < LEAST_SHARE and not self.better_without):
            return None
        if waits_for_memory(self.facts, self.waiting_share):
            return "memory"
        if self.is_bound:
            return "bound"
        if self.mostly_packs or self.better_without:
            return "handoff"
        if self.is_crowded:
            return "crowd"
        if self.is_bursty:
            return "burst"
        if blames_handoff(self, self.ready_share):
            return "handoff"
        if not self.is_explained or self.loading.still >= MOSTLY:
            return None  # they are blocked, and the recording does not show by what
        return self._storage_kind() if self.waits_for_storage else "work"

    def _storage_kind(self) -> str:
        opens, chars = self.mean_of("opens"), self.mean_of("chars")
        if opens >= MOSTLY * self.mean_of("samples") and chars / max(opens, 1e-9) <= SMALL_FILE:
            return "small files"
        return "storage"

    @cached_property
    def hottest_line(self) -> tuple[Place, float] | None:
        """The user's line in most worker samples and its share of them; None without any."""
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
        """Return the user's places that the loader (with or without ``workers``) reports."""
        inline = [candidate for candidate in self.loading.loaders if not candidate.workers]
        loader = self.loader if workers else (inline or [LoaderFacts()])[0]
        places = [frame_place(getattr(loader, key) or "", self.facts.rank) for key in keys]
        return tuple(place for place in places if place and not in_library(place))

    @property
    def costliest_places(self) -> tuple[Place, ...]:
        """The line that costs most, else the dataset's method."""
        return (self.hottest_line[0],) if self.hottest_line else self.places_of("making")
