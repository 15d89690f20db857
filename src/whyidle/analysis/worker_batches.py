"""Batches that loader workers make: what one costs there, and what is made again in every epoch.

Costs are means over the batches made in scope, in seconds; shares are 0-1.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.cpu_affinity import cores_for_loading
from whyidle.analysis.prefetch_model import AHEAD, epoch_starts
from whyidle.analysis.repeated_reads import from_storage, made_again, second_epoch_start
from whyidle.analysis.step_scope import StepScope
from whyidle.model.process_facts import LoaderFacts

MOSTLY = 0.5
"""a part that holds at least this share of a batch's cost is what the batch waits for"""
FEW_BATCHES = 4
LEAST_SAMPLES = 8
"""the chance that a coin-flip augmentation leaves so many samples alike twice is 0.4 %"""


class WorkerBatches:
    """The batches that the loader workers of one rank made, as far as they were seen."""

    def __init__(self, facts: StepScope) -> None:
        self.facts = facts
        self.loading = facts.timeline.loading

    @cached_property
    def batches_made(self) -> NDArray[Any]:
        """Batches made by workers in scope; all, where the scope holds hardly any."""
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
        several = [one for one in self.loading.loaders if one.workers]
        if len(several) > 1 and len(self.batches_taken):
            number = Counter(self.batches_taken["iterator"].tolist()).most_common(1)[0][0]
            if 0 < number <= len(self.loading.iterators):
                return self.loading.loaders[self.loading.iterators[number - 1].loader]
        return several[0] if several else LoaderFacts()

    @property
    def is_known(self) -> bool:
        """Whether enough batches of workers were seen to say anything."""
        return (
            len(self.batches_made) >= FEW_BATCHES
            and bool(self.count)
            and len(self.batches_taken) > 0
        )

    @property
    def count(self) -> int:
        """How many workers the loader has."""
        return self.loader.workers

    @property
    def batches_ahead(self) -> int:
        """Batches that each worker may have ready at most."""
        return self.loader.prefetch or AHEAD

    @property
    def depth(self) -> int:
        """Batches that may be ready at most."""
        return self.count * self.batches_ahead

    @property
    def cores(self) -> float:
        """Cores that the process and its workers may use, once nothing binds them; 1 where not
        told."""
        return float(cores_for_loading(self.facts) or 1.0)

    def mean_of(self, column: str) -> float:
        """Mean of a column over the batches made, s (or what the column counts)."""
        values = self.batches_made[column]
        values = values[values >= 0]
        scale = 1.0 if column in ("chars", "read", "faults", "opens", "samples") else 1e9
        return float(values.mean()) / scale if len(values) else 0.0

    @cached_property
    def batch_time(self) -> float:
        """Making a batch, s."""
        return float((self.batches_made["end"] - self.batches_made["start"]).mean()) / 1e9

    @cached_property
    def usual_batch_time(self) -> float:
        """Making a batch as most are, s: the first ones of a new worker take longer."""
        return float(np.median(self.batches_made["end"] - self.batches_made["start"])) / 1e9

    @cached_property
    def other_threads_cpu(self) -> float:
        """CPU of other threads of the worker while a batch is made, s."""
        return max(0.0, self.mean_of("process_cpu") - self.mean_of("cpu"))

    @cached_property
    def storage_wait(self) -> float:
        """Neither working nor waiting for a core: waiting for storage, network or sleep, s."""
        return max(
            0.0,
            self.batch_time - self.mean_of("cpu") - self.mean_of("delay") - self.other_threads_cpu,
        )

    @cached_property
    def pickle_time(self) -> float:
        """Handing a batch over, in the worker, s."""
        return self.mean_of("pickle")

    @cached_property
    def unpickle_time(self) -> float:
        """Handing a batch over, in the training process, s."""
        return (
            float(self.batches_taken["unpickle"].mean()) / 1e9 if len(self.batches_taken) else 0.0
        )

    @property
    def waits_for_storage(self) -> bool:
        """Whether batches mostly wait for something that is neither CPU nor core."""
        return self.storage_wait >= MOSTLY * max(self.batch_time - self.mean_of("delay"), 1e-9)

    # -- from epoch to epoch ----------------------------------------------------------------

    @cached_property
    def _epoch_starts(self) -> NDArray[np.int64]:
        """When the first batch of each epoch but the first was begun, ns."""
        rows = self.loading.batches
        begun = np.sort(rows["start"][rows["worker"] >= 0])
        return begun[epoch_starts(begun, np.sort(self.loading.takes["end"]))]

    @cached_property
    def later_epoch(self) -> int | None:
        """When the second epoch that was seen began, ns; None where there was but one."""
        return second_epoch_start(self._epoch_starts, [one.start for one in self.loading.iterators])

    @cached_property
    def repeated_samples(self) -> tuple[int, int]:
        """Of how many samples the loader made the same again, of how many that it made again."""
        return made_again(self.loading.rows)

    @property
    def same_again(self) -> bool:
        """Whether the loader makes the same of every sample in every epoch, as far as was seen."""
        return self.repeated_samples[0] == self.repeated_samples[1] >= LEAST_SAMPLES

    @property
    def seldom_again(self) -> bool:
        """Whether too few samples were made again to tell, and all of them the same."""
        same, again = self.repeated_samples
        return len(self.loading.rows) > 0 and same == again < LEAST_SAMPLES

    @cached_property
    def reread_share(self) -> float:
        """Share of what later epochs read that comes from storage although it was read before; 0
        with a single epoch, or where storage is not read through this machine."""
        again, rows = self.later_epoch, self.loading.batches
        made = (rows["worker"] >= 0) & (rows["start"] >= (again or 0))
        return 0.0 if again is None else from_storage(rows[made])
