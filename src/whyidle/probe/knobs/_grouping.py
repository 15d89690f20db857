"""Batches of samples of like length: the order in which samples are drawn, changed within limits.

How long each sample is, is learned where batches are made; from the second epoch on the order that
the script's own sampler draws is cut into pools of many batches, each pool is sorted by length, cut
into batches, and these are mixed. Every sample comes as often as before, batches are as large, and
no random number of the job is drawn: the mixing has a generator of its own, the same on all ranks.

Only for loaders that shuffle (PyTorch's random or distributed sampler, PyTorch's batch sampler):
an order that somebody chose is left alone. So is a dataset whose samples are all of one length, and
an order that ranks draw in common.
"""

from __future__ import annotations

import functools
import mmap
import random
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import Hand

KNOB = "loader.batch_by_length"
POOL = 50
"""batches that are sorted together; as many as Hugging Face's sampler takes, with which it is known
to learn as well"""
KNOWN = 0.9
"""share of the samples whose length must be known"""
LEAST = 0.1
"""by which share the longest must be longer than the mean"""
MOST = 1 << 27
"""samples, at most"""
SEED = 0x1E46


class Lengths:
    """How long the samples of a dataset are, shared with the workers that are forked; 0: unknown.

    Raises:
        OSError: there is no such memory.
    """

    def __init__(self, samples: int) -> None:
        self.of: Any = memoryview(mmap.mmap(-1, 4 * max(samples, 1))).cast("i")
        self.epochs = 0

    def note(self, indices: Any, samples: Any) -> None:
        """Samples as they were made."""
        for index, sample in zip(indices, samples, strict=False):
            if type(index) is int and 0 <= index < len(self.of) and not self.of[index]:
                self.of[index] = length_of(sample)

    def use(self) -> str:
        """Why they are of no use; empty where they are."""
        import torch

        whole = torch.frombuffer(self.of, dtype=torch.int32)
        known = whole[whole > 0].double()
        if len(known) < KNOWN * len(whole):
            return "the lengths of most of its samples are not known"
        if known.max() < (1.0 + LEAST) * known.mean():
            return "its samples are all of about one length"
        return ""


class Grouping:
    """The loaders of one process."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.lengths: weakref.WeakKeyDictionary[Any, Lengths] = weakref.WeakKeyDictionary()
        """by batch sampler"""
        self.datasets: weakref.WeakKeyDictionary[Any, Lengths] = weakref.WeakKeyDictionary()

    def made(self, loader: Any) -> None:
        """A loader was made."""
        from torch.utils.data import BatchSampler, IterableDataset, RandomSampler
        from torch.utils.data.distributed import DistributedSampler

        dataset, batches = loader.dataset, getattr(loader, "batch_sampler", None)
        if isinstance(dataset, IterableDataset) or type(batches) is not BatchSampler:
            return
        drawn: Any = batches.sampler
        random_order = type(drawn) is RandomSampler and not drawn.replacement
        shared = type(drawn) is DistributedSampler and drawn.shuffle
        if not (random_order or shared) or not 0 < len(dataset) <= MOST:
            return
        try:
            made = self.datasets.get(dataset) or Lengths(len(dataset))
            self.datasets[dataset] = self.lengths[batches] = made
        except TypeError:  # nothing can be known of it by itself
            self.hand.decline([KNOB], f"its dataset is a {type(dataset).__name__}")

    def order(self, batches: Any, original: Callable[..., Any]) -> Iterator[Any] | None:
        """The batches of an epoch; None where they come as ever."""
        lengths = self.lengths.get(batches)
        if lengths is None:
            return None
        lengths.epochs += 1
        why = (_common(batches) or lengths.use()) if lengths.epochs > 1 else "first"
        if why:
            if lengths.epochs > 1:
                self.hand.decline([KNOB], why)
            return None
        self.hand.took(KNOB)
        chance = random.Random(SEED + lengths.epochs)
        return _grouped(original(batches), lengths, chance)


def _common(batches: Any) -> str:
    """Why the order is not this process's alone to change; empty where it is. Some frameworks draw
    it alike on all ranks, and give each of them some of the batches."""
    import torch.distributed as ranks
    from torch.utils.data.distributed import DistributedSampler

    several = ranks.is_available() and ranks.is_initialized() and ranks.get_world_size() > 1
    if not several or type(batches.sampler) is DistributedSampler:
        return ""
    return "its ranks share one order, and each of them knows other lengths"


def _grouped(plain: Iterator[Any], lengths: Lengths, chance: random.Random) -> Iterator[Any]:
    pool: list[list[int]] = []
    for batch in plain:
        pool.append(list(batch))
        if len(pool) == POOL:
            yield from _mixed(pool, lengths, chance)
            pool = []
    yield from _mixed(pool, lengths, chance)


def _mixed(pool: list[list[int]], lengths: Lengths, chance: random.Random) -> Iterator[list[int]]:
    """The same samples, in batches of the same sizes."""
    known = len(lengths.of)
    longest_first = sorted(
        (index for batch in pool for index in batch),
        key=lambda index: -lengths.of[index] if 0 <= index < known else 0,
    )
    sizes, made, at = sorted((len(batch) for batch in pool), reverse=True), [], 0
    for size in sizes:
        made.append(longest_first[at : at + size])
        at += size
    whole = [batch for batch in made if len(batch) == sizes[0]]
    chance.shuffle(whole)
    yield from whole
    yield from (batch for batch in made if len(batch) < sizes[0])  # the rest comes last, as ever


def turn(hand: Hand) -> None:
    """Learn lengths where batches are made, and draw by them."""
    from torch.utils.data import BatchSampler, DataLoader
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    grouping = Grouping(hand)

    def make_loader(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            hand.contained([KNOB], grouping.made, self)

        return init

    def make_order(original: Callable[..., Any]) -> Callable[..., Any]:
        def each(self: Any) -> Iterator[Any]:  # workers' iterators ask twice, and draw once
            found = None if hand.child else hand.contained([KNOB], grouping.order, self, original)
            yield from original(self) if found is None else found

        return each

    def make_fetch(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetched(self: Any, indices: Any) -> Any:
            lengths = _of(grouping, self)
            if lengths is None or not self.auto_collation:
                return original(self, indices)
            collate = self.collate_fn
            self.collate_fn = functools.partial(_noted, hand, lengths, list(indices), collate)
            try:
                return original(self, indices)
            finally:
                self.collate_fn = collate

        return fetched

    hand.replace(DataLoader, "__init__", make_loader)
    hand.replace(BatchSampler, "__iter__", make_order)
    hand.replace(_MapDatasetFetcher, "fetch", make_fetch)


def _of(grouping: Grouping, fetcher: Any) -> Lengths | None:
    """Those of the dataset that it reads, or of the one that a knob has put something before."""
    for one in (fetcher.dataset, getattr(fetcher.dataset, "dataset", None)):
        try:
            found = grouping.datasets.get(one)
        except TypeError:
            continue
        if found is not None:
            return found
    return None


def _noted(hand: Hand, lengths: Lengths, indices: Any, collate: Any, samples: Any) -> Any:
    hand.contained([KNOB], lengths.note, indices, samples)
    return collate(samples)


def length_of(sample: Any) -> int:
    """How long a sample is: what its mask leaves, else its longest part; 0 where nothing is."""
    import torch

    numpy: Any = sys.modules.get("numpy")
    arrays = (torch.Tensor,) if numpy is None else (torch.Tensor, numpy.ndarray)
    if isinstance(sample, Mapping):
        mask = sample.get("attention_mask")
        if mask is not None and not isinstance(mask, (int, float)):
            return int(sum(mask)) if isinstance(mask, (list, tuple)) else int(mask.sum())
        return max((length_of(one) for one in sample.values()), default=0)
    if isinstance(sample, arrays):
        return int(sample.shape[0]) if sample.ndim else 0
    if isinstance(sample, tuple):
        return max((length_of(one) for one in sample), default=0)
    return len(sample) if isinstance(sample, (list, str, bytes)) else 0
