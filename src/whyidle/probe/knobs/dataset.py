"""Caches the samples of a dataset by index once they are proven to be deterministic.

The proof uses samples of this run: the first ones are computed twice, with other states of the
random number generators of Python, NumPy and PyTorch, and must be bitwise equal; no sample may draw
from these generators, nor may the dataset hold one of its own; and in every epoch some cached
samples are computed again. The cache is dropped for good when a sample differs, when the dataset
keeps changing between epochs, or when it has no hash that would show this. Samples are stored in
memory that workers share; each read returns a new copy.
"""

from __future__ import annotations

import math
import random
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

from ..core import fault_containment as guard
from . import NO_FORM, KnobSession, _free_memory
from ._dataset_hash import NoHashError, hash_contents
from ._sample_codec import UnknownError, decode_sample, encode_sample
from ._shared_samples import OFF, PROVEN, Index, Room

KNOB = "dataset.cache"
SHARE = 0.5
"""largest share of the free memory, measured at first, that the cache may take"""
PROVE = 32
"""samples that are computed twice before any is cached"""
EVERY = 64
"""reads per sample that is computed again; the first reads of an epoch recompute as well"""
LEAST = 2.0
"""least ratio of the time to compute a sample to the time to read a cached one"""
CHANGES = 2
"""tolerated changes of a dataset between epochs: some open their files in the first one"""
Make = Callable[[list[Any]], Any]
"""computes a list of samples from a list of indices, in the process where batches are made"""
AUGMENTING = ("albumentations", "imgaug", "kornia", "imgaug2")
"""packages whose transforms draw from generators of their own, and not for every sample"""
GENERATORS = ("Generator", "RandomState", "Random", "SystemRandom")
DEPTH, MOST = 5, 2_000
"""depth and number of objects to which a dataset is searched for generators"""


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Cache the samples of datasets with an index."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    session.decline_knobs([knob for knob in edits if knob != KNOB], NO_FORM)
    if not edits.get(KNOB):
        return
    shelf = CacheShelf(session)

    def make_iterator(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, loader, *args, **kwargs)
            session.run_contained([KNOB], shelf.begin_epoch, loader)
            return result

        return init

    def make_fetcher(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, dataset, *args, **kwargs)
            kept = session.run_contained([KNOB], shelf.cached_dataset, dataset)
            if kept is not None:
                self.dataset = kept
            return result

        return init

    session.replace_function(dataloader._BaseDataLoaderIter, "__init__", make_iterator)
    session.replace_function(_MapDatasetFetcher, "__init__", make_fetcher)


class CacheShelf:
    """The caches of a process and the workers that it forks."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.room: Room | None = None
        self.caches: dict[int, SampleCache] = {}

    def begin_epoch(self, loader: Any) -> None:
        """Begin an epoch of a loader, in the process that owns it."""
        from torch.utils.data import IterableDataset

        if isinstance(loader.dataset, IterableDataset):
            self.session.decline_knobs([KNOB], "samples of an IterableDataset have no index")
            return
        cache = self._cache_of(loader.dataset)
        if cache is not None:
            cache.begin_epoch(loader.dataset)

    def cached_dataset(self, dataset: Any) -> Any:
        """Return the wrapper to use in place of the dataset; None to use the dataset itself."""
        cache = self._cache_of(dataset)
        if cache is None or cache.off:
            return None
        kind = CachedBatchDataset if getattr(dataset, "__getitems__", None) else CachedDataset
        return kind(cache, dataset)

    def _cache_of(self, dataset: Any) -> SampleCache | None:
        """The cache of a dataset, for as long as the script has it; None for a plain list, which
        holds its samples itself."""
        from torch.utils.data import get_worker_info

        number = id(dataset)
        if number in self.caches:
            return self.caches[number]
        try:
            gone = weakref.ref(dataset, lambda _: self.caches.pop(number, None))
        except TypeError:
            return None
        if self.room is None:
            info = get_worker_info()  # a spawned worker has memory of its own
            share = SHARE / (info.num_workers if info else 1)
            self.room = Room(int(share * min(_free_memory.free_bytes(), 1 << 44)))
        made = SampleCache(self.session, Index(self.room, len(dataset)), gone)
        self.caches[number] = made
        return made


class CachedDataset:
    """Replaces a dataset where batches are made."""

    def __init__(self, cache: SampleCache, dataset: Any) -> None:
        self.cache = cache
        self.dataset = dataset

    def _make_samples(self, indices: list[Any]) -> list[Any]:
        return [self.dataset[index] for index in indices]

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            return self.dataset[index]
        return self.cache.read_samples([index], self._make_samples)[0]


class CachedBatchDataset(CachedDataset):
    """The same for a dataset with ``__getitems__``."""

    def __getitems__(self, indices: list[Any]) -> Any:
        return self.cache.read_samples(list(indices), self.dataset.__getitems__)


def find_generator(value: Any) -> str:
    """Name the random generator, or the object with one, that a dataset holds; empty if none is
    found."""
    seen: set[int] = set()
    waiting = [("dataset", value, 0)]
    while waiting and len(seen) < MOST:
        name, value, depth = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        package = kind.__module__.partition(".")[0]
        if package in AUGMENTING or (
            kind.__name__ in GENERATORS and package in ("random", "numpy", "torch")
        ):
            return f"{name} ({kind.__module__}.{kind.__name__})"
        if depth < DEPTH:
            waiting += [(f"{name}{key}", held, depth + 1) for key, held in _held_objects(value)]
    return ""


def _held_objects(holder: Any) -> list[tuple[str, Any]]:
    """The objects that an object holds, with their names; at most 50 of a container."""
    if isinstance(holder, (list, tuple)):
        return [(f"[{number}]", value) for number, value in enumerate(holder[:50])]
    if isinstance(holder, dict):
        return [(f"[{key!r}]", value) for key, value in list(holder.items())[:50]]
    if isinstance(holder, type) or type(holder).__module__ in ("builtins", "torch"):
        return []
    return [(f".{key}", value) for key, value in getattr(holder, "__dict__", {}).items()]


def read_states() -> tuple[Any, ...]:
    """Read the states of Python's, PyTorch's and NumPy's generators."""
    import torch

    numpy: Any = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else None
    return random.getstate(), torch.get_rng_state(), legacy


def are_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    """Whether two readings of the states are equal."""
    import torch

    if before[0] != after[0] or not torch.equal(before[1], after[1]):
        return False
    if before[2] is None or after[2] is None:
        return before[2] is after[2]
    return bool(before[2][2:] == after[2][2:] and (before[2][1] == after[2][1]).all())


def disturb_states() -> None:
    """Set the generators to other states."""
    import torch

    random.seed(0xD15)
    torch.default_generator.manual_seed(0xD15)
    numpy: Any = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(0xD15)


def restore_states(before: tuple[Any, ...]) -> None:
    """Restore the states of the generators."""
    import torch

    random.setstate(before[0])
    torch.set_rng_state(before[1])
    if before[2] is not None:
        sys.modules["numpy"].random.set_state(before[2])


class SampleCache:
    """The cache of one dataset, shared by all processes, and this process's view of it."""

    def __init__(self, session: KnobSession, index: Index, gone: Any = None) -> None:
        self.session = session
        self.index = index
        self.gone = gone
        """weak reference that reports the end of the dataset, stored to keep it alive"""
        self.looks = 0
        self.make_s = self.read_s = math.inf
        """shortest time per sample: longer ones may include waiting"""
        self.changes = -1
        self.hash = b""

    @property
    def off(self) -> bool:
        """Whether the cache was dropped."""
        return bool(self.index.state[OFF])

    def run_safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return the result of ``work``; None, with the cache dropped, if it fails."""
        try:
            return work(*args)
        except Exception as error:  # contained: the job continues without the cache
            if guard.signal_of_handler(error) is not None:
                raise
            self.index.state[OFF] = 1
            self.session.report_fault([KNOB], error)
            return None

    def drop_cache(self, why: str) -> None:
        """Drop the cache in all processes."""
        self.index.state[OFF] = 1
        self.session.decline_knobs([KNOB], why)

    def begin_epoch(self, dataset: Any) -> None:
        """Check at the begin of an epoch whether the script has changed the dataset."""
        self.run_safely(self._begin_epoch, dataset)

    def _begin_epoch(self, dataset: Any) -> None:
        self.looks = 0
        if source := find_generator(dataset):
            self.drop_cache(f"the dataset has its own random generator: {source}")
            return
        try:
            now = hash_contents(dataset)
        except NoHashError as reason:
            self.drop_cache(f"it is unknown whether the dataset changes between epochs: {reason}")
            return
        if now == self.hash:
            return
        self.changes, self.hash = self.changes + 1, now
        if self.changes > CHANGES:
            self.drop_cache("the dataset changes from epoch to epoch")
        elif self.changes:
            self._start_anew()

    def _start_anew(self) -> None:
        off = self.index.state[OFF]
        self.index = Index(self.index.room, self.index.items)
        self.index.state[OFF] = off

    def is_recheck_due(self) -> bool:
        """Count a read; return whether to compute the sample again instead."""
        self.looks += 1
        first = max(1, min(16, self.index.items // EVERY))
        return self.looks <= first or self.looks % EVERY == 0

    def read_samples(self, indices: list[Any], make: Make) -> Any:
        """Return samples from the cache, and compute those that are missing."""
        if self.off or not all(type(sample) is int for sample in indices):
            return make(indices)
        known = [self.run_safely(self._read_cached, sample) for sample in indices]
        wanted = [index for index, sample in zip(indices, known, strict=True) if sample is None]
        if not wanted:
            return [sample[0] for sample in known]
        before = self.run_safely(read_states)
        begin = time.perf_counter()
        result = make(wanted)
        took_s = time.perf_counter() - begin
        if type(result) is not list or len(result) != len(wanted):
            self.drop_cache("its batches are not lists of samples")
            return result if len(wanted) == len(indices) else make(indices)
        if before is not None:
            self.run_safely(self._learn, wanted, result, before, make, took_s)
        if len(wanted) < len(indices) and self.off:
            if before is not None:  # the cached ones cannot be trusted either
                self.run_safely(restore_states, before)
            return make(indices)
        made = iter(result)
        return [next(made) if sample is None else sample[0] for sample in known]

    def _read_cached(self, item: int) -> tuple[Any] | None:
        data = self.index.get(item)
        if data is None:
            return None
        if self.is_recheck_due():
            return None
        found = (decode_sample(data),)
        self.session.record_applied(KNOB)
        return found

    def _learn(
        self, indices: list[int], samples: list[Any], before: Any, make: Make, took_s: float
    ) -> None:
        """Cache computed samples, or drop the cache if they are not deterministic."""
        now = read_states()
        if (before[2] is None) != (now[2] is None):
            return  # NumPy was imported meanwhile: whether it was drawn from is unknown
        if not are_same(before, now):
            self.drop_cache("its samples draw random numbers")
            return
        try:
            made = [encode_sample(sample) for sample in samples]
        except UnknownError as error:
            self.drop_cache(f"its samples hold {error}, which cannot be cached")
            return
        if self.index.state[PROVEN] < PROVE and not self._proven(indices, made, make, took_s):
            return
        for item, data in zip(indices, made, strict=True):
            stored = self.index.get(item)
            if stored is None:
                self.index.store_sample(item, data)
            elif stored != data:
                self.drop_cache(f"sample {item} differs from the first time")
                return

    def _proven(self, indices: list[int], made: list[bytes], make: Make, took_s: float) -> bool:
        """Compute the samples again with other random states, and compare."""
        before = read_states()
        try:
            disturb_states()
            other = read_states()
            again = make(indices)
            drew = not are_same(other, read_states())
        finally:
            restore_states(before)
        if drew or [encode_sample(sample) for sample in again] != made:
            self.drop_cache("its samples differ when they are computed twice")
            return False
        begin = time.perf_counter()
        for data in made:
            decode_sample(data)
        read_s = time.perf_counter() - begin
        self.make_s = min(self.make_s, took_s / len(made))
        self.read_s = min(self.read_s, read_s / len(made))
        self.index.state[PROVEN] += len(indices)
        if self.index.state[PROVEN] < PROVE:
            return True
        if self.make_s < LEAST * self.read_s:
            self.drop_cache("computing its samples is as fast as reading cached ones")
            return False
        return True
