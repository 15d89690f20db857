"""What a dataset returns, kept by index once it is proven to be the same every time.

Proof is of this run's own samples: the first ones are made twice, with other states of the random
number generators of Python, NumPy and PyTorch, and must be the same bit for bit; no sample may
draw from those generators at all, nor its dataset hold one of its own; and of what is kept, some
are made again in every epoch. The first one that comes out otherwise, or a dataset whose attributes
keep changing between epochs, ends it for good. What is kept lies in memory that workers share, and
each look gives a new copy. Of samples that random transforms come last in, what comes before is
kept (``_prefix``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import NO_FORM, Hand, _memory, _reordering, _staging
from ._chains import Taps, found
from ._keeping import KNOB, Source
from ._prefix import Prefix
from ._shared import Index, Room
from ._whole import Keeper

SHARE = 0.5
"""of the memory that is free at first, all that is kept may take at most"""


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Keep what datasets with an index return."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    known = (KNOB, _staging.KNOB, _reordering.KNOB)
    hand.decline([knob for knob in edits if knob not in known], NO_FORM)
    if edits.get(_reordering.KNOB):
        if edits.get(KNOB):
            hand.decline([_reordering.KNOB], "samples are kept, and not made again")
        else:
            _reordering.turn(hand)
    if edits.get(_staging.KNOB):
        _staging.turn(hand)
    if not edits.get(KNOB):
        return
    shelf = Shelf(hand)

    def make_iterator(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, loader, *args, **kwargs)
            hand.contained([KNOB], shelf.epoch, loader)
            return result

        return init

    def make_fetcher(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, dataset, *args, **kwargs)
            kept = hand.contained([KNOB], shelf.kept, dataset)
            if kept is not None:
                self.dataset = kept
            return result

        return init

    hand.replace(dataloader._BaseDataLoaderIter, "__init__", make_iterator)
    hand.replace(_MapDatasetFetcher, "__init__", make_fetcher)


class Shelf:
    """All that is kept in a process, and in the workers that it forks."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.taps = Taps(hand)
        self.room: Room | None = None
        self.keepers: dict[int, Keeper] = {}

    def epoch(self, loader: Any) -> None:
        """An iterator of a loader is made, in the process that owns the loader."""
        from torch.utils.data import IterableDataset

        if isinstance(loader.dataset, IterableDataset):
            self.hand.decline([KNOB], "samples of an IterableDataset have no index")
            return
        keeper = self._of(loader.dataset)
        if keeper is not None:
            keeper.epoch(loader.dataset)

    def kept(self, dataset: Any) -> Any:
        """What stands for the dataset where batches are made; None where it stands for itself."""
        keeper = self._of(dataset)
        if keeper is None or keeper.off:
            return None
        kind = KeptBatches if getattr(dataset, "__getitems__", None) else Kept
        return kind(keeper, dataset)

    def _of(self, dataset: Any) -> Keeper | None:
        """Who keeps its samples, for as long as the script has it; nobody those of a plain list,
        which has them itself."""
        from torch.utils.data import get_worker_info

        number = id(dataset)
        if number in self.keepers:
            return self.keepers[number]
        try:
            gone = weakref.ref(dataset, lambda _: self.keepers.pop(number, None))
        except TypeError:
            return None
        if self.room is None:
            info = get_worker_info()  # a worker that is no copy has memory of its own
            share = SHARE / (info.num_workers if info else 1)
            self.room = Room(int(share * min(_memory.free_bytes(), 1 << 44)))
        items = len(dataset)
        prefix = None
        if found(dataset):
            prefix = Prefix(self.hand, Index(self.room, items), self.taps)
        made = Keeper(self.hand, Index(self.room, items), gone, prefix)
        self.keepers[number] = made
        return made


class Kept:
    """Stands for a dataset where batches are made."""

    def __init__(self, keeper: Keeper, dataset: Any) -> None:
        self.keeper = keeper
        self.dataset = dataset
        self.samples = Source(dataset, lambda some: [dataset[one] for one in some])

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            return self.dataset[index]
        return self.keeper.items([index], self.samples)[0]


class KeptBatches(Kept):
    """The same for one that makes several samples at once."""

    def __init__(self, keeper: Keeper, dataset: Any) -> None:
        super().__init__(keeper, dataset)
        self.batches = Source(dataset, dataset.__getitems__, _singly(dataset))

    def __getitems__(self, indices: list[Any]) -> Any:
        return self.keeper.items(list(indices), self.batches)


def _singly(dataset: Any) -> bool:
    """Whether it is only a subset, and makes the samples of a batch one after the other."""
    from torch.utils.data import Subset

    while getattr(dataset, "__getitems__", None):
        if type(dataset).__getitems__ is not getattr(Subset, "__getitems__", None):
            return False
        dataset = dataset.dataset
    return True
