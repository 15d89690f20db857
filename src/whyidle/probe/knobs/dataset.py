"""What a dataset returns, kept by index once it is proven to be the same every time.

Proof is of this run's own samples: the first ones are made twice, with other states of the random
number generators of Python, NumPy and PyTorch, and must be the same bit for bit; no sample may
draw from those generators at all, nor its dataset hold one of its own; and of what is kept, some
are made again in every epoch. The first one that comes out otherwise, or a dataset whose attributes
keep changing between epochs, ends it for good. What is kept lies in memory that workers share, and
each look gives a new copy.
"""

from __future__ import annotations

import math
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

from .. import guard
from . import NO_FORM, Hand, _memory, _staging
from ._chance import disturb, own, restore, same, states
from ._codec import UnknownError, decode, encode
from ._shared import OFF, PROVEN, Index, Room

KNOB = "dataset.cache"
SHARE = 0.5
"""of the memory that is free at first, all that is kept may take at most"""
PROVE = 32
"""samples that are made twice before any is kept"""
EVERY = 64
"""one of so many looks makes the sample again instead, and so do the first ones of an epoch"""
FIRST = 16
LEAST = 2.0
"""making a sample must take so many times as long as reading a kept one"""
CHANGES = 2
"""so often a dataset may have changed between epochs: some open their files in the first"""
Make = Callable[[list[Any]], Any]


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Keep what datasets with an index return."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    hand.decline([knob for knob in edits if knob not in (KNOB, _staging.KNOB)], NO_FORM)
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
        if keeper is None or keeper.index.state[OFF]:
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
        made = self.keepers[number] = Keeper(self.hand, len(dataset), self.room, gone)
        return made


class Keeper:
    """What is kept of one dataset."""

    def __init__(self, hand: Hand, items: int, room: Room, gone: Any) -> None:
        self.hand = hand
        self.gone = gone
        """says when the dataset goes, as long as it is kept itself"""
        self.index = Index(room, items)
        self.looks = 0
        self.first = max(1, min(FIRST, self.index.items // EVERY))
        self.changes = -1
        self.was: dict[str, Any] = {}
        self.make_s = self.read_s = math.inf
        """of a sample, the shortest that was seen: anything else may have had to wait"""

    def _safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and the end of it all, where it fails."""
        try:
            return work(*args)
        except Exception as error:  # contained: the job goes on without it
            if guard.handling(error) is not None:
                raise
            self.index.state[OFF] = 1
            self.hand.fault([KNOB], error)
            return None

    def epoch(self, dataset: Any) -> None:
        """Another one begins."""
        self._safely(self._epoch, dataset)

    def _epoch(self, dataset: Any) -> None:
        self.looks = 0
        if source := own(dataset):
            self.stop(f"the dataset has random numbers of its own: {source}")
            return
        now = fingerprint(dataset)
        if now == self.was:
            return
        changed = sorted({name.partition(".")[0] for name, _ in now.items() ^ self.was.items()})
        self.changes, self.was = self.changes + 1, now
        if self.changes > CHANGES:
            self.stop(f"the dataset changes from epoch to epoch: {', '.join(changed[:3])}")
        elif self.changes:
            off = self.index.state[OFF]
            self.index = Index(self.index.room, self.index.items)
            self.index.state[OFF] = off

    def stop(self, why: str) -> None:
        """Nothing is kept any more, in no process."""
        self.index.state[OFF] = 1
        self.hand.decline([KNOB], why)

    def items(self, indices: list[Any], make: Make) -> Any:
        """The samples, of which ``make`` makes those that are not there."""
        if self.index.state[OFF] or not all(type(one) is int for one in indices):
            return make(indices)
        known = [self._safely(self._known, one) for one in indices]
        wanted = [i for i, one in zip(indices, known, strict=True) if one is None]
        if not wanted:
            return [one[0] for one in known]
        before = self._safely(states)
        begin = time.perf_counter()
        result = make(wanted)
        took_s = time.perf_counter() - begin
        if type(result) is not list or len(result) != len(wanted):
            self.stop("its batches are no lists of samples")
            return result if len(wanted) == len(indices) else make(indices)
        if before is not None:
            self._safely(self._learn, wanted, result, before, make, took_s)
        made = iter(result)
        return [next(made) if one is None else one[0] for one in known]

    def _known(self, item: int) -> tuple[Any] | None:
        data = self.index.get(item)
        if data is None:
            return None
        self.looks += 1
        if self.looks <= self.first or self.looks % EVERY == 0:
            return None
        found = (decode(data),)
        self.hand.took(KNOB)
        return found

    def _learn(
        self, indices: list[int], result: list[Any], before: Any, make: Make, took_s: float
    ) -> None:
        """Keep what was made, or see that it may not be kept."""
        now = states()
        if (before[2] is None) != (now[2] is None):
            return  # NumPy came in between: whether it was drawn from is not known
        if not same(before, now):
            self.stop("its samples draw random numbers")
            return
        try:
            made = [encode(one) for one in result]
        except UnknownError as error:
            self.stop(f"its samples hold {error}, which is not kept")
            return
        if self.index.state[PROVEN] < PROVE and not self._proven(indices, made, make, took_s):
            return
        for item, data in zip(indices, made, strict=True):
            there = self.index.get(item)
            if there is None:
                self.index.put(item, data)
            elif there != data:
                self.stop(f"sample {item} came out otherwise than before")
                return

    def _proven(self, indices: list[int], made: list[bytes], make: Make, took_s: float) -> bool:
        """Make them again, with other random numbers at hand."""
        before = states()
        try:
            disturb()
            other = states()
            again = make(indices)
            drew = not same(other, states())
        finally:
            restore(before)
        if drew or [encode(one) for one in again] != made:
            self.stop("its samples come out otherwise the second time")
            return False
        begin = time.perf_counter()
        for data in made:
            decode(data)
        read_s = time.perf_counter() - begin
        self.make_s = min(self.make_s, took_s / len(made))
        self.read_s = min(self.read_s, read_s / len(made))
        self.index.state[PROVEN] += len(indices)
        if self.index.state[PROVEN] >= PROVE and self.make_s < LEAST * self.read_s:
            self.stop("its samples are made as fast as kept ones would be read")
            return False
        return True


class Kept:
    """Stands for a dataset where batches are made."""

    def __init__(self, keeper: Keeper, dataset: Any) -> None:
        self.keeper = keeper
        self.dataset = dataset

    def __getitem__(self, index: Any) -> Any:
        dataset = self.dataset
        if type(index) is not int:
            return dataset[index]
        return self.keeper.items([index], lambda some: [dataset[one] for one in some])[0]


class KeptBatches(Kept):
    """The same for one that makes several samples at once."""

    def __getitems__(self, indices: list[Any]) -> Any:
        return self.keeper.items(list(indices), self.dataset.__getitems__)


def fingerprint(value: Any, name: str = "", depth: int = 3) -> dict[str, Any]:
    """The attributes of a dataset, and of what it holds: numbers and texts as they are, anything
    else by what object it is."""
    found: dict[str, Any] = {}
    for key, one in vars(value).items() if hasattr(value, "__dict__") else ():
        path = f"{name}.{key}" if name else key
        plain = isinstance(one, (bool, int, float, str, type(None)))
        found[path] = one if plain else id(one)
        if depth and not plain and not isinstance(one, (type, types.ModuleType)):
            found |= fingerprint(one, path, depth - 1)
    return found
