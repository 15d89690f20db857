"""What a dataset returns, kept by index once it is proven to be the same every time.

Proof is of this run's own samples: the first ones are made twice, with other states of the random
number generators of Python, NumPy and PyTorch, and must be the same bit for bit; no sample may
draw from those generators at all, nor its dataset hold one of its own; and of what is kept, some
are made again in every epoch. The first one that comes out otherwise, a dataset that keeps changing
between epochs, or one that has no hash to tell that by, ends it for good. What is kept lies in
memory that workers share, and each look gives a new copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import NO_FORM, KnobSession, _file_staging, _free_memory
from ._sample_cache import KNOB, SampleCache
from ._shared_samples import Index, Room

SHARE = 0.5
"""of the memory that is free at first, all that is kept may take at most"""


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Keep what datasets with an index return."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    hand.decline_knobs([knob for knob in edits if knob not in (KNOB, _file_staging.KNOB)], NO_FORM)
    if edits.get(_file_staging.KNOB):
        _file_staging.stage_files(hand)
    if not edits.get(KNOB):
        return
    shelf = CacheShelf(hand)

    def make_iterator(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, loader, *args, **kwargs)
            hand.run_contained([KNOB], shelf.begin_epoch, loader)
            return result

        return init

    def make_fetcher(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, dataset, *args, **kwargs)
            kept = hand.run_contained([KNOB], shelf.cached_dataset, dataset)
            if kept is not None:
                self.dataset = kept
            return result

        return init

    hand.replace_function(dataloader._BaseDataLoaderIter, "__init__", make_iterator)
    hand.replace_function(_MapDatasetFetcher, "__init__", make_fetcher)


class CacheShelf:
    """All that is kept in a process, and in the workers that it forks."""

    def __init__(self, hand: KnobSession) -> None:
        self.hand = hand
        self.room: Room | None = None
        self.caches: dict[int, SampleCache] = {}

    def begin_epoch(self, loader: Any) -> None:
        """An iterator of a loader is made, in the process that owns the loader."""
        from torch.utils.data import IterableDataset

        if isinstance(loader.dataset, IterableDataset):
            self.hand.decline_knobs([KNOB], "samples of an IterableDataset have no index")
            return
        cache = self._cache_of(loader.dataset)
        if cache is not None:
            cache.begin_epoch(loader.dataset)

    def cached_dataset(self, dataset: Any) -> Any:
        """What stands for the dataset where batches are made; None where it stands for itself."""
        cache = self._cache_of(dataset)
        if cache is None or cache.off:
            return None
        kind = CachedBatchDataset if getattr(dataset, "__getitems__", None) else CachedDataset
        return kind(cache, dataset)

    def _cache_of(self, dataset: Any) -> SampleCache | None:
        """Who keeps its samples, for as long as the script has it; nobody those of a plain list,
        which has them itself."""
        from torch.utils.data import get_worker_info

        number = id(dataset)
        if number in self.caches:
            return self.caches[number]
        try:
            gone = weakref.ref(dataset, lambda _: self.caches.pop(number, None))
        except TypeError:
            return None
        if self.room is None:
            info = get_worker_info()  # a worker that is no copy has memory of its own
            share = SHARE / (info.num_workers if info else 1)
            self.room = Room(int(share * min(_free_memory.free_bytes(), 1 << 44)))
        made = SampleCache(self.hand, Index(self.room, len(dataset)), gone)
        self.caches[number] = made
        return made


class CachedDataset:
    """Stands for a dataset where batches are made."""

    def __init__(self, cache: SampleCache, dataset: Any) -> None:
        self.cache = cache
        self.dataset = dataset

    def _make_samples(self, indices: list[Any]) -> list[Any]:
        return [self.dataset[one] for one in indices]

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            return self.dataset[index]
        return self.cache.items([index], self._make_samples)[0]


class CachedBatchDataset(CachedDataset):
    """The same for one that makes several samples at once."""

    def __getitems__(self, indices: list[Any]) -> Any:
        return self.cache.items(list(indices), self.dataset.__getitems__)
