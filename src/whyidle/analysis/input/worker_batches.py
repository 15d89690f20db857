"""Batches from loader workers: their costs, and what is repeated in every epoch. Costs are means
over the batches in scope, in seconds; shares are 0-1."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64
from whyidle.analysis.host.cpu_affinity import cores_for_loading
from whyidle.analysis.input.prefetch_model import AHEAD, epoch_starts
from whyidle.analysis.input.repeated_reads import count_repeats, second_epoch_start, storage_share
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.cause import MOSTLY
from whyidle.model.process_facts import LoaderFacts

READ = 0.1
"""bytes read per byte of a batch below which samples lie in memory; files may be compressed"""
FEW_BATCHES = 4
LEAST_SAMPLES = 8
"""a coin-flip augmentation leaves this many samples alike twice with a chance of 0.4 %"""


class WorkerBatches:
    """The recorded batches of one rank's loader workers."""

    def __init__(self, facts: StepScope) -> None:
        self.facts = facts
        self.loading = facts.timeline.loading

    @cached_property
    def batches_made(self) -> NDArray[Any]:
        """Batches that workers prepared in scope; all, if the scope holds too few."""
        rows = self.loading.batches
        rows = rows[rows["worker"] >= 0]
        inside = rows[self.facts.scope.contains_times(rows["end"])]
        return inside if len(inside) >= FEW_BATCHES else rows

    @cached_property
    def batches_taken(self) -> NDArray[Any]:
        """Batches taken from workers in scope."""
        rows = self.loading.takes
        return rows[self.facts.scope.contains_times(rows["start"])]

    @cached_property
    def loader(self) -> LoaderFacts:
        """The loader with workers that gives most batches."""
        loaders = [loader for loader in self.loading.loaders if loader.workers]
        if len(loaders) > 1 and len(self.batches_taken):
            number = Counter(self.batches_taken["iterator"].tolist()).most_common(1)[0][0]
            if 0 < number <= len(self.loading.iterators):
                return self.loading.loaders[self.loading.iterators[number - 1].loader]
        return loaders[0] if loaders else LoaderFacts()

    @property
    def epoch_bytes(self) -> int | None:
        """Bytes of all batches of an epoch, as they are after every transform; None: not known."""
        batches, size = self.loader.batches, self.loading.batch_bytes
        return batches * size if batches and size else None

    @property
    def is_known(self) -> bool:
        """Whether enough batches of workers were recorded."""
        enough = len(self.batches_made) >= FEW_BATCHES
        return enough and bool(self.count) and len(self.batches_taken) > 0

    @property
    def count(self) -> int:
        """Number of workers of the loader."""
        return self.loader.workers

    @property
    def batches_ahead(self) -> int:
        """Most batches that each worker may have ready."""
        return self.loader.prefetch or AHEAD

    @property
    def depth(self) -> int:
        """Most batches that may be ready."""
        return self.count * self.batches_ahead

    @property
    def cores(self) -> float:
        """Cores that the process and its workers may use without restrictions; 1 if unknown."""
        return float(cores_for_loading(self.facts) or 1.0)

    def mean_of(self, column: str) -> float:
        """Return the mean of a column over the batches, s (or what the column counts)."""
        values = self.batches_made[column]
        values = values[values >= 0]
        scale = 1.0 if column in ("chars", "read", "faults", "opens", "samples") else 1e9
        return float(values.mean()) / scale if len(values) else 0.0

    @cached_property
    def batch_time(self) -> float:
        """Time to prepare a batch, s."""
        return float((self.batches_made["end"] - self.batches_made["start"]).mean()) / 1e9

    @cached_property
    def sample_s(self) -> float | None:
        """Mean time to make a sample, s; None without measured batches of several samples."""
        rows = self.loading.batches[self.loading.batches["samples"] > 1]
        samples = int(rows["samples"].sum())
        return float((rows["end"] - rows["start"]).sum()) / 1e9 / samples if samples else None

    @cached_property
    def usual_batch_time(self) -> float:
        """Median time to prepare a batch, s; the first ones of a new worker take longer."""
        return float(np.median(self.batches_made["end"] - self.batches_made["start"])) / 1e9

    @cached_property
    def other_threads_cpu(self) -> float:
        """CPU time of the worker's other threads per batch, s."""
        return max(0.0, self.mean_of("process_cpu") - self.mean_of("cpu"))

    @cached_property
    def storage_wait(self) -> float:
        """Time per batch waiting for storage, network or sleep, s."""
        busy = self.mean_of("cpu") + self.mean_of("delay") + self.other_threads_cpu
        return max(0.0, self.batch_time - busy)

    @cached_property
    def pickle_time(self) -> float:
        """Hand-off time per batch in the worker, s."""
        return self.mean_of("pickle")

    @cached_property
    def unpickle_time(self) -> float:
        """Hand-off time per batch in the training process, s."""
        taken = self.batches_taken["unpickle"]
        return float(taken.mean()) / 1e9 if len(taken) else 0.0

    @property
    def reads_nothing(self) -> bool:
        """Whether workers read less than they pass on, so that samples lie in memory."""
        return self.mean_of("chars") < READ * (self.loading.batch_bytes or 0)

    @property
    def waits_for_storage(self) -> bool:
        """Whether batches mostly wait for something other than CPU or core."""
        return self.storage_wait >= MOSTLY * max(self.batch_time - self.mean_of("delay"), 1e-9)

    @cached_property
    def _epoch_starts(self) -> I64:
        rows = self.loading.batches
        begun = np.sort(rows["start"][rows["worker"] >= 0])
        return begun[epoch_starts(begun, np.sort(self.loading.takes["end"]))]

    @cached_property
    def later_epoch(self) -> int | None:
        """When the second recorded epoch began, ns; None with only one."""
        return second_epoch_start(
            self._epoch_starts, [iterator.start for iterator in self.loading.iterators]
        )

    @cached_property
    def repeated_samples(self) -> tuple[int, int]:
        """Repeated samples with the same result, and all repeated samples."""
        return count_repeats(self.loading.rows)

    @property
    def same_again(self) -> bool:
        """Whether every repeated sample had the same result."""
        return self.repeated_samples[0] == self.repeated_samples[1] >= LEAST_SAMPLES

    @property
    def seldom_again(self) -> bool:
        """Whether too few samples were repeated to decide, and all of them the same."""
        same, again = self.repeated_samples
        return len(self.loading.rows) > 0 and same == again < LEAST_SAMPLES

    @cached_property
    def reread_share(self) -> float:
        """Share of later epochs' reads that comes from storage again; 0 with a single epoch."""
        again, rows = self.later_epoch, self.loading.batches
        later = (rows["worker"] >= 0) & (rows["start"] >= (again or 0))
        return 0.0 if again is None else storage_share(rows[later])
