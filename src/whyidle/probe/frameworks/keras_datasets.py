"""The PyDataset of Keras that a job is trained on, and when each of its batches is there.

Its generator runs on the thread that trains (JAX), or on one of tf.data's, which has no model of a
dataset with several workers: the time at which a batch leaves the dataset tells how long its step
waited.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import wire
from ..core.events import Events
from ..core.recorder import clock_ns
from .keras_hooks import after_import

ADAPTER = ("keras.src.trainers.data_adapters.py_dataset_adapter", "PyDatasetAdapter")
HOOK, LABEL = "PyDataset", "keras.utils.PyDataset"
MOST_BATCHES = 10_000
"""batches of an epoch whose times are kept until they are asked for, about once a second"""


class Delivery:
    """The batches of one epoch, as they leave the dataset."""

    def __init__(self, begun: int) -> None:
        self.begun, self.given = begun, 0
        self.times: deque[int] = deque(maxlen=MOST_BATCHES)

    def find_waits(self, calls: Sequence[tuple[int, int]], before: int) -> list[int]:
        """Return how long each call waited for its batch, ns, after ``before`` earlier calls; none
        where the times of batches are no longer known."""
        times, first = list(self.times), self.given - len(self.times)
        pairs = zip(times[before - first :] if before >= first else (), calls, strict=False)
        return [max(0, min(there, end) - begin) for there, (begin, end) in pairs]


class PyDatasets:
    """The datasets of one process. ``waited`` records requests on the thread that trains."""

    def __init__(self, events: Events, *, waited: bool) -> None:
        self.events, self.waited = events, waited
        self.deliveries: deque[Delivery] = deque(maxlen=4)
        self.trained_on: dict[str, Any] | None = None
        events.live_facts["py_dataset"] = lambda: self.trained_on
        after_import(events, *ADAPTER, self._watch)

    def find_delivery(self, first_call: tuple[int, int]) -> Delivery | None:
        """Return the batches of the epoch that began in this call, if a dataset gives them."""
        begin, end = first_call
        return next((one for one in self.deliveries if begin <= one.begun <= end), None)

    def _watch(self, loaded: Any) -> None:
        patch, adapter = self.events.patch_function, loaded.PyDatasetAdapter
        patch(HOOK, adapter, "__init__", self._watch_constructor)
        patch(f"{HOOK} batches", adapter, "_get_iterator", self._watch_batches)

    def _watch_constructor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(adapter: Any, x: Any, *args: Any, **kwds: Any) -> None:
            original(adapter, x, *args, **kwds)
            self.events.run_contained(HOOK, self.note_dataset, x)

        return init

    def note_dataset(self, dataset: Any) -> None:
        """Note the dataset that batches are about to be taken from, unless training has begun."""
        if self.trained_on is None or not self.events.steps:
            code = getattr(type(dataset).__getitem__, "__code__", None)
            batches = getattr(dataset, "num_batches", None)
            self.trained_on = {
                "making": code and f"{code.co_filename}({code.co_firstlineno}): {code.co_name}",
                "workers": int(dataset.workers),
                "batches": batches if batches is None else int(batches),
            }

    def _watch_batches(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda adapter: self._pass_on(type(adapter), original(adapter))

    def _pass_on(self, kind: type, batches: Iterator[Any]) -> Iterator[Any]:
        begin = clock_ns()
        self.deliveries.append(delivery := Delivery(begin))
        for batch in batches:
            self.events.run_contained(HOOK, self.note_batch, kind, delivery, begin)
            yield batch
            begin = clock_ns()

    def note_batch(self, kind: type, delivery: Delivery, begin: int) -> None:
        """Note that a batch leaves the dataset now, asked for at ``begin``."""
        events = self.events
        delivery.given += 1
        delivery.times.append(clock_ns())
        if self.waited and threading.get_ident() == events.home:
            number = events.recorder.name_number(LABEL, wire.BATCH_FROM_ITERATOR)
            events.numbers[kind] = number
            events.batch_taken(kind, begin)
