"""The PyDataset or generator that Keras is fitted on, and when each of its batches is there.

Its generator runs on the thread that trains (JAX), or on one of tf.data's, which has no model of a
dataset with several workers: the time at which a batch leaves the dataset tells how long its step
waited.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from .. import wire
from ..core.events import Events
from ..core.recorder import clock_ns
from .keras_hooks import after_import

PLACE = "keras.src.trainers.data_adapters"
ADAPTERS = (
    (f"{PLACE}.py_dataset_adapter", "PyDatasetAdapter", "_get_iterator"),
    (f"{PLACE}.generator_data_adapter", "GeneratorDataAdapter", "get_jax_iterator"),
)
"""module, class, and the method that gives an epoch's batches"""
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
    """The datasets of one process, on one backend of Keras. On JAX, requests on the thread that
    trains are recorded here; on PyTorch they are a DataLoader's."""

    def __init__(self, events: Events, backend: str) -> None:
        self.events, self.waited = events, backend == "jax"
        self.deliveries: deque[Delivery] = deque(maxlen=4)
        self.trained_on: dict[str, Any] | None = None
        given = (
            ADAPTERS[:1] if backend == "tensorflow" else ADAPTERS
        )  # tf.data shows its generators
        for module, name, method in given:
            after_import(events, module, name, partial(self._watch, name, method), backend)

    def find_delivery(self, first_call: tuple[int, int]) -> Delivery | None:
        """Return the batches of the epoch that began in this call, if a dataset gives them."""
        begin, end = first_call
        return next((one for one in self.deliveries if begin <= one.begun <= end), None)

    def _watch(self, name: str, method: str, loaded: Any) -> None:
        patch, adapter = self.events.patch_function, getattr(loaded, name)
        self.events.live_facts["py_dataset"] = lambda: self.trained_on
        patch(name, adapter, "__init__", self._watch_constructor)
        patch(f"{name} batches", adapter, method, self._watch_batches)

    def _watch_constructor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(adapter: Any, x: Any, *args: Any, **kwds: Any) -> None:
            original(adapter, x, *args, **kwds)
            self.events.run_contained(HOOK, self.note_dataset, x)

        return init

    def note_dataset(self, dataset: Any) -> None:
        """Note the dataset that batches are about to be taken from, unless training has begun."""
        if self.trained_on is None or not self.events.steps:
            making = getattr(type(dataset), "__getitem__", None)
            code = getattr(dataset, "gi_code", None) or getattr(making, "__code__", None)
            batches = getattr(dataset, "num_batches", None)
            self.trained_on = {
                "making": code and f"{code.co_filename}({code.co_firstlineno}): {code.co_name}",
                "workers": max(1, int(dataset.workers)) if hasattr(dataset, "workers") else 0,
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
