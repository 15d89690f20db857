"""Records the cost of each batch where it is made, and its transfer to the training process.

Loader workers are forked or spawned processes; both have these wrappers. A worker records into
files named by its own process id, with its parent's id in ``PID.worker.json``, so that readers can
select the workers of a training process. In a worker, all counters are read before and after every
batch (some 10 us). In the training process that would cost too much: there they are read for the
first few batches and again after every ``FULL_EVERY`` steps, and only these batches are recorded;
in between the wrapper is removed, unless batches are checked for padding.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ... import wire
from ...core.events import Events
from ...core.recorder import ANNOTATION, clock_ns
from ...core.wrapped_functions import set_attribute
from ...wire import BATCH, ROW, TAKE
from . import batch_checksum, padding
from .batch_content import count_samples, describe_batch, describe_sample
from .loader_facts import describe_loader, describe_worker, has_too_many_workers, process_limits
from .process_counters import Counts, ProcessCounters

FULL_FIRST, FULL_EVERY = 8, 32
MOST_ITERATORS = 500

Mark = tuple[int, int, ProcessCounters, Counts]


class LoaderRecorder:
    """Records the loaders of one process. ``worker`` is -1 outside loader workers."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.recorder = events.recorder
        self.padding = padding.PaddingCounter(events)
        self.wrapped = True
        self.switch: Callable[[bool], None] = lambda _: None
        """installs and removes the wrapper of ``fetch``"""
        self._reset_after_fork()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.worker = -1
        self.known = False
        self.depth = self.fetched = 0
        self.light = 0
        """number of following batches that are not measured"""
        self.collated = self.pickled = self.unpickled = self.opened = 0
        self.counters: ProcessCounters | None = None
        self.content: dict[str, Any] = {}
        """of the largest batch, among measured batches of the training process and the first
        batches from workers"""
        self.counted = 0
        """number of the latter"""
        self.settings: list[dict[str, Any]] = []
        self.made: list[tuple[int, int, int]] = []
        self.iterators = 0
        self.numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._resume_measuring()

    # -- batches ----------------------------------------------------------------------------

    def begin_batch(self) -> Mark | None:
        """Read all counters before a batch; None inside another batch (nested loaders)."""
        if self.depth > 1:
            return None
        if not self.known:
            self._describe_worker()
        counters = self.counters = self.counters or ProcessCounters()
        counts = counters.read_counters()
        return clock_ns(), time.thread_time_ns(), counters, counts

    def _pause_measuring(self) -> None:
        """Remove the wrapper for some steps, in which no batch is measured."""
        self.wrapped = False
        self.switch(False)
        self.events.call_later(FULL_EVERY, self._resume_measuring)

    def _resume_measuring(self) -> None:
        if not self.wrapped:
            self.wrapped, self.light = True, 0
            self.switch(True)

    def end_batch(self, mark: Mark, index: Any, data: Any) -> None:
        """Record a batch that was measured."""
        self.fetched += 1
        if self.worker < 0:
            self._describe_batch(data)
            self.padding.note_batch(data)
            self.light = 0 if self.fetched < FULL_FIRST else FULL_EVERY - 1
            if self.light and not self.padding.tries:
                self._pause_measuring()
        begin, cpu, counters, before = mark
        samples = len(index) if isinstance(index, (list, tuple)) else count_samples(data)
        cpu, end = time.thread_time_ns() - cpu, clock_ns()
        after = counters.read_counters()
        spent = tuple(b - a for a, b in zip(before, after, strict=True))
        self._record_batch((begin, end, cpu), spent, samples)
        if data is not None and end - begin > batch_checksum.LEAST_NS:
            checksum = batch_checksum.checksum_sample(index, data)
            if checksum is not None:
                self.recorder.add_row("rows", ROW, (end, *checksum))

    def _describe_batch(self, data: Any) -> None:
        """Describe the largest batch: a worker passes its tensors one by one, or would."""
        content = describe_batch(data)
        if content["bytes"] > self.content.get("bytes", 0):
            self._extend_document("loaders.json", content)
            self.content |= content

    def note_samples(self, samples: Any) -> None:
        """Describe the samples that are collated, once."""
        self.content["sample"] = ""
        if isinstance(samples, (list, tuple)) and samples:
            self.content["sample"] = describe_sample(samples[0])
        if self.content["sample"]:
            name = "loaders.json" if self.worker < 0 else "worker.json"
            self._extend_document(name, {"sample": self.content["sample"]})

    def _extend_document(self, name: str, content: dict[str, Any]) -> None:
        self.recorder.documents[name] = {**self.recorder.documents.get(name, {}), **content}

    def _record_batch(
        self, times: tuple[int, int, int], spent: tuple[int, ...], samples: int
    ) -> None:
        """Record a batch with all its counters."""
        process, delay, chars, read, faults = spent
        pickled, self.pickled = self.pickled, 0
        collated, self.collated = self.collated, 0
        opened, self.opened = self.opened, 0
        figures = (*times, process, delay, collated, pickled, chars, read)
        row = (*figures, max(faults, 0), opened, samples, self.worker)
        self.recorder.add_row("batches", BATCH, row)

    def _describe_worker(self) -> None:
        """Describe this process before its first batch, if it is a worker."""
        self.known = True
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        if info is None:
            return
        self.worker = info.id
        if has_too_many_workers(self.recorder.folder):
            self.switch(False)
            self.recorder.end_recording()
            return
        self.recorder.documents["worker.json"] = describe_worker(info.id)
        self.events.undo["hand-off"] = _time_pickling(self)
        sys.addaudithook(self._audit_open)
        self.events.watch_thread()
        if self.events.sampler is not None:
            self.events.sampler.follow(threading.get_ident())
        self.events.finish_with_child()

    def _audit_open(self, event: str, _: Any) -> None:
        if event == "open":
            self.opened += 1

    # -- iterators --------------------------------------------------------------------------

    def note_iterator(self, iterator: Any, loader: Any, begin: int) -> None:
        """Record the creation of an iterator and the settings of its loader."""
        end = clock_ns()
        self.iterators += 1
        self.numbers[iterator] = self.iterators
        name = f"{sys.modules[type(loader).__module__].__file__}(1): __iter__"
        self.events.add_span(wire.LOADER_START, name, ANNOTATION, begin)
        settings = describe_loader(loader)
        if settings not in self.settings:
            if len(self.settings) > MOST_ITERATORS:
                return
            self.settings = [*self.settings, settings]
        if len(self.made) < MOST_ITERATORS:
            self.made = [*self.made, (begin, end, self.settings.index(settings))]
        self.recorder.documents["loaders.json"] = {
            **process_limits(),
            "settings": self.settings,
            "made": self.made,
            "iterators": self.iterators,
            **self.content,
        }

    def note_taken(self, iterator: Any, begin: int, ready: int, data: Any) -> None:
        """Record that a batch was taken from the workers; describe the first ones."""
        unpickled, self.unpickled = self.unpickled, 0
        row = (begin, clock_ns(), unpickled, ready, self.numbers.get(iterator, 0))
        self.recorder.add_row("takes", TAKE, row)
        if self.counted < FULL_FIRST:
            self.counted += 1
            self._describe_batch(data)


def install_loader_hooks(events: Events) -> None:
    """Wrap the creation of batches and iterators, and taking batches from workers."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    loader = LoaderRecorder(events)
    _wrap_fetch(events, loader, (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher))
    _wrap_made(events, loader, dataloader._BaseDataLoaderIter, dataloader.DataLoader)
    _wrap_taken(events, loader, dataloader._MultiProcessingDataLoaderIter)


def _wrap_fetch(events: Events, loader: LoaderRecorder, kinds: tuple[Any, ...]) -> None:
    plain = {kind: kind.fetch for kind in kinds}
    wrapped = {kind: _wrap_fetcher(loader, kind.fetch) for kind in kinds}

    def switch(on: bool) -> None:
        before, after = (plain, wrapped) if on else (wrapped, plain)
        for kind in kinds:
            if kind.__dict__["fetch"] is before[kind]:  # not wrapped by other code since
                kind.fetch = after[kind]

    def undo() -> None:
        loader.switch = lambda _: None
        switch(False)
        loader.counters = None

    events.undo["fetch"], loader.switch = undo, switch
    switch(True)


def _wrap_fetcher(loader: LoaderRecorder, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fetch(self: Any, index: Any) -> Any:
        light = loader.light
        if not light or loader.depth:
            return _measure_fetch(loader, original, self, index)
        loader.light = light - 1
        loader.depth = 1
        try:
            data = original(self, index)
        finally:
            loader.depth = 0
        if loader.padding.tries:
            loader.padding.note_batch(data)
        return data

    return fetch


def _measure_fetch(
    loader: LoaderRecorder, original: Callable[..., Any], fetcher: Any, index: Any
) -> Any:
    """Make a batch and record it with all counters."""
    events, mark, data, collate = loader.events, None, None, None
    loader.depth += 1
    try:
        mark = loader.begin_batch()
        if mark is not None:
            collate = fetcher.collate_fn
            fetcher.collate_fn = _timed_collate(loader, collate)
    except Exception as error:  # contained
        events.report_failure("fetch", error)
    try:
        data = original(fetcher, index)
        return data
    finally:
        loader.depth -= 1
        if collate is not None:
            fetcher.collate_fn = collate
        if mark is not None:
            try:
                loader.end_batch(mark, index, data)
            except Exception as error:  # contained
                events.report_failure("fetch", error)


def _timed_collate(loader: LoaderRecorder, collate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(collate)
    def call_timed(*args: Any, **kwargs: Any) -> Any:
        begin = clock_ns()
        try:
            return collate(*args, **kwargs)
        finally:
            loader.collated += clock_ns() - begin
            if args and "sample" not in loader.content:
                loader.events.run_contained("samples", loader.note_samples, args[0])

    return call_timed


def _wrap_made(events: Events, loader: LoaderRecorder, base: Any, kind: Any) -> None:
    """Wrap ``DataLoader._get_iterator``, which creates iterators of all classes."""
    original = kind._get_iterator

    @functools.wraps(original)
    def _get_iterator(self: Any) -> Any:
        if "iterator" in events.off:
            return original(self)
        begin = clock_ns()
        made = original(self)
        try:
            if isinstance(made, base):
                loader.note_iterator(made, self, begin)
                if hasattr(made, "_data_queue") and "unpickling" not in events.undo:
                    events.undo["unpickling"] = _time_unpickling(loader)
        except Exception as error:  # contained
            events.report_failure("iterator", error)
        return made

    events.undo["iterator"] = set_attribute(kind, "_get_iterator", _get_iterator)


def _wrap_taken(events: Events, loader: LoaderRecorder, kind: Any) -> None:
    original = kind._next_data

    @functools.wraps(original)
    def _next_data(self: Any) -> Any:
        if "taken" in events.off:
            return original(self)
        begin, ready, data = clock_ns(), -1, None
        try:
            ready, loader.unpickled = _count_ready(self), 0
        except Exception as error:  # contained
            events.report_failure("taken", error)
        try:
            data = original(self)
            return data
        finally:
            try:
                loader.note_taken(self, begin, ready, data)
                loader.padding.note_batch(data)
            except Exception as error:  # contained
                events.report_failure("taken", error)

    events.undo["taken"] = set_attribute(kind, "_next_data", _next_data)


def _count_ready(iterator: Any) -> int:
    """Number of batches that workers have finished and the loop has not taken; -1: unknown."""
    try:
        held = iterator._worker_result_queue.qsize()
    except NotImplementedError:  # macOS
        return -1
    if iterator._data_queue is not iterator._worker_result_queue:
        held += iterator._data_queue.qsize()
    return held + sum(len(info) == 2 for info in iterator._task_info.values())


def _time_pickling(loader: LoaderRecorder) -> Callable[[], None]:
    """Time pickling in a worker, which another thread of it does."""
    from multiprocessing.reduction import ForkingPickler

    original = ForkingPickler.__dict__["dumps"]

    def dumps(cls: Any, obj: Any, protocol: int | None = None) -> Any:
        begin = time.thread_time_ns()
        try:
            return original.__func__(cls, obj, protocol)
        finally:
            loader.pickled += time.thread_time_ns() - begin

    return set_attribute(ForkingPickler, "dumps", classmethod(dumps))


def _time_unpickling(loader: LoaderRecorder) -> Callable[[], None]:
    from multiprocessing.reduction import ForkingPickler

    loads = ForkingPickler.loads

    def call_timed(*args: Any, **kwargs: Any) -> Any:
        begin = time.thread_time_ns()
        try:
            return loads(*args, **kwargs)
        finally:
            loader.unpickled += time.thread_time_ns() - begin

    return set_attribute(ForkingPickler, "loads", staticmethod(call_timed))
