"""The loader from within: what each batch costs where it is made, and how it is handed over.

Loader workers are processes of their own, forked or spawned; both hold these wrappers. A worker
records into files named by its own process id, with its parent's in ``PID.worker.json``: whoever
reads the recording keeps the workers whose parent trained. In a worker all counters are read at
both ends of every batch (some 10 us); in the training process, where that would be felt, only in
the first few and again after every ``FULL_EVERY`` steps. Those alone are recorded; in between the
wrapper is off, unless batches are looked at for padding.
"""

from __future__ import annotations

import functools
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.patching import set_attribute
from ...core.recorder import ANNOTATION, clock_ns
from ...wire import BATCH, ROW, TAKE
from . import batch_checksum, embedding_ids, padding
from .loader_facts import describe_loader, describe_worker, has_too_many_workers, process_limits

FULL_FIRST, FULL_EVERY = 8, 32
MOST_ITERATORS = 500
MOST_DEEP, MOST_PARTS = 3, 64
"""of a batch, so much is looked through for tensors"""

Counts = tuple[int, int, int, int, int]
Mark = tuple[int, int, Counts]
NOTHING: Counts = (0, 0, 0, 0, 0)


class LoaderRecorder:
    """What one process knows of its loaders. ``worker`` is -1 outside loader workers."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.recorder = events.recorder
        self.padding = padding.PaddingCounter(events)
        self.wrapped = True
        self.switch: Callable[[bool], None] = lambda _: None
        """puts the wrapper of making a batch on, and takes it off"""
        self._reset_after_fork()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.worker = -1
        self.known = False
        self.depth = self.fetched = 0
        self.light = 0
        """how many batches from now on nothing is read of"""
        self.collated = self.pickled = self.unpickled = self.opened = 0
        self.files: tuple[int, int] = (-1, -1)
        self.tensors = self.counted = 0
        """of the batch with most of them, of those that were measured in the training process, and
        the first ones that workers handed over; how many of the latter were looked at"""
        self.settings: list[dict[str, Any]] = []
        self.made: list[tuple[int, int, int]] = []
        self.iterators = 0
        self._resume_measuring()

    # -- batches ----------------------------------------------------------------------------

    def begin_batch(self) -> Mark | None:
        """Before a batch of which all is read; None inside another batch (nested loaders)."""
        if self.depth > 1:
            return None
        if not self.known:
            self._describe_worker()
        counts = self._read_counters()
        return clock_ns(), time.thread_time_ns(), counts

    def _pause_measuring(self) -> None:
        """No batch is to be measured for some steps: not even a call of ours is made."""
        self.wrapped = False
        self.switch(False)
        self.events.call_later(FULL_EVERY, self._resume_measuring)

    def _resume_measuring(self) -> None:
        if not self.wrapped:
            self.wrapped, self.light = True, 0
            self.switch(True)

    def end_batch(self, mark: Mark, index: Any, data: Any) -> None:
        """After a batch of which all is read."""
        self.fetched += 1
        if self.worker < 0:
            self._count_tensors(data)
            self.padding.note_batch(data)
            self.light = 0 if self.fetched < FULL_FIRST else FULL_EVERY - 1
            if self.light and not self.padding.tries:
                self._pause_measuring()
        begin, cpu, before = mark
        samples = len(index) if isinstance(index, (list, tuple)) else 1
        end = self._record_batch(begin, cpu, before, samples)
        if data is not None and end - begin > batch_checksum.LEAST_NS:
            found = batch_checksum.of_one(index, data)
            if found is not None:
                self.recorder.add_row("rows", ROW, (end, *found))

    def _count_tensors(self, data: Any) -> None:
        """What a worker hands over one by one, or would."""
        found = _count_tensors(data)
        if found > self.tensors:
            self.tensors = found
            told = self.recorder.documents.get("loaders.json", {})
            self.recorder.documents["loaders.json"] = {**told, "tensors": found}

    def _record_batch(self, begin: int, cpu: int, before: Counts, samples: int) -> int:
        """Record a batch with all its counters; returns its end."""
        cpu, end = time.thread_time_ns() - cpu, clock_ns()
        after = tuple(b - a for a, b in zip(before, self._read_counters(), strict=True))
        process, delay, chars, read, faults = after
        pickled, self.pickled = self.pickled, 0
        collated, self.collated = self.collated, 0
        opened, self.opened = self.opened, 0
        times = (begin, end, cpu, process, delay, collated, pickled, chars, read)
        row = (*times, max(faults, 0), opened, samples, self.worker)
        self.recorder.add_row("batches", BATCH, row)
        return end

    def _read_counters(self) -> Counts:
        """The process's CPU ns, the thread's wait for a core ns, characters read, bytes read from
        storage, faults that read."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        process = int((usage.ru_utime + usage.ru_stime) * 1e9)
        chars = read = delay = 0
        io, schedule = self.files
        if io >= 0:
            fields = os.pread(io, 256, 0).split()
            chars, read = int(fields[1]), int(fields[9])
        if schedule >= 0:
            delay = int(os.pread(schedule, 96, 0).split()[1])
        return process, delay, chars, read, usage.ru_majflt

    def _describe_worker(self) -> None:
        """The first batch that this process makes: who it is."""
        self.known = True
        from torch.utils.data import get_worker_info

        self.files = (_open_counter("/proc/self/io"), _open_counter("/proc/thread-self/schedstat"))
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
        """An iterator was made: read its settings once."""
        end = clock_ns()
        self.iterators += 1
        iterator._whyidle = self.iterators
        name = f"{sys.modules[type(loader).__module__].__file__}(1): __iter__"
        self.events.add_span(wire.LOADER_START, name, ANNOTATION, begin)
        told = describe_loader(loader)
        if told not in self.settings:
            if len(self.settings) > MOST_ITERATORS:
                return
            self.settings = [*self.settings, told]
        if len(self.made) < MOST_ITERATORS:
            self.made = [*self.made, (begin, end, self.settings.index(told))]
        self.recorder.documents["loaders.json"] = {
            **process_limits(),
            "settings": self.settings,
            "made": self.made,
            "iterators": self.iterators,
            "tensors": self.tensors,
        }

    def note_taken(self, iterator: Any, begin: int, ready: int, data: Any) -> None:
        """A batch was taken from the workers. Of the first ones the tensors are counted."""
        unpickled, self.unpickled = self.unpickled, 0
        number = getattr(iterator, "_whyidle", 0)
        self.recorder.add_row("takes", TAKE, (begin, clock_ns(), unpickled, ready, number))
        if self.counted < FULL_FIRST:
            self.counted += 1
            self._count_tensors(data)


def install_loader_hooks(events: Events) -> None:
    """Wrap making batches, making iterators and taking batches from workers."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    loader = LoaderRecorder(events)
    events.add_listener(embedding_ids.EmbeddingIds(events, loader.padding))
    _wrap_fetch(events, loader, (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher))
    _wrap_made(events, loader, dataloader._BaseDataLoaderIter, dataloader.DataLoader)
    _wrap_taken(events, loader, dataloader._MultiProcessingDataLoaderIter)


def _wrap_fetch(events: Events, loader: LoaderRecorder, kinds: tuple[Any, ...]) -> None:
    plain = {kind: kind.fetch for kind in kinds}
    wrapped = {kind: _wrap_fetcher(loader, kind.fetch) for kind in kinds}

    def switch(on: bool) -> None:
        """Somebody else may have wrapped it since: that stays as it is."""
        before, after = (plain, wrapped) if on else (wrapped, plain)
        for kind in kinds:
            if kind.__dict__["fetch"] is before[kind]:
                kind.fetch = after[kind]

    def undo() -> None:
        loader.switch = lambda _: None
        switch(False)

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
    """Make a batch, and record it with all its counters."""
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
    def timed(*args: Any, **kwargs: Any) -> Any:
        begin = clock_ns()
        try:
            return collate(*args, **kwargs)
        finally:
            loader.collated += clock_ns() - begin

    return timed


def _wrap_made(events: Events, loader: LoaderRecorder, base: Any, kind: Any) -> None:
    """``DataLoader._get_iterator`` makes every iterator, whatever its class."""
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
            ready = _count_ready(self)
            loader.unpickled = 0
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
    """Batches that workers have finished and the training loop has not taken yet; -1: unknown."""
    try:
        held = iterator._worker_result_queue.qsize()
    except NotImplementedError:  # macOS
        return -1
    if iterator._data_queue is not iterator._worker_result_queue:
        held += iterator._data_queue.qsize()
    return held + sum(len(info) == 2 for info in iterator._task_info.values())


def _time_pickling(loader: LoaderRecorder) -> Callable[[], None]:
    """In a worker: another thread pickles what is handed over."""
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

    def timed(*args: Any, **kwargs: Any) -> Any:
        begin = time.thread_time_ns()
        try:
            return loads(*args, **kwargs)
        finally:
            loader.unpickled += time.thread_time_ns() - begin

    return set_attribute(ForkingPickler, "loads", staticmethod(timed))


def _count_tensors(data: Any, left: int = MOST_DEEP) -> int:
    """How many tensors a batch consists of, in lists, tuples and dictionaries."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, (list, tuple)):
        return sum(_count_tensors(part, left - 1) for part in data[:MOST_PARTS]) if left else 0
    return int(hasattr(data, "untyped_storage"))


def _open_counter(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
