"""Caches the samples of a dataset by index once they are proven to be deterministic.

The proof uses samples of this run: the first ones are computed twice, with other states of the
random number generators of Python, NumPy and PyTorch, and must be bitwise equal; no sample may draw
from these generators, nor may the dataset hold one of its own; and in every epoch some cached
samples are computed again. The cache is dropped for good when a sample differs, when the dataset
keeps changing between epochs, or when it has no hash that would show this. Samples are stored in
memory that workers share; each read returns a new copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import NO_FORM, KnobSession, _free_memory
from ._sample_cache import KNOB, SampleCache
from ._shared_samples import Index, Room

SHARE = 0.5
"""largest share of the free memory, measured at first, that the cache may take"""


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
