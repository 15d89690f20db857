"""Larger batches where the job trains: a DataLoader that shuffles is made with a larger batch size.

An order that nobody shuffled is an evaluation, or somebody's choice: it is left alone. So are
batches that a sampler of the script's own puts together, streams without an index, and a dataset
of which too few batches would be left. The loader's length is the new one from the start, so that
schedules which are computed from it come out right.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from . import DeclinedError, KnobSession

KNOB = "loader.batch_size_times"
LEAST = 10
"""batches that an epoch must have left: fewer steps than that hardly are one"""


class Sizes:
    """What loaders of one process were made with."""

    def __init__(self, hand: KnobSession, times: float) -> None:
        self.hand, self.times = hand, times
        was = hand.was.get(KNOB)
        self.tried = was if isinstance(was, str) else ""
        """sizes that the plan was made for; in a trial of it none are known yet"""
        self.made: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
        """by dataset: frameworks make loaders anew from what loaders say of themselves"""
        self.put_together: weakref.WeakSet[Any] = weakref.WeakSet()
        """batch samplers that loaders made for themselves, of which frameworks do so, too"""

    def larger(self, bound: dict[str, Any]) -> int | None:
        """The batch size for a loader that is about to be made; None for one that is left alone.

        Raises:
            DeclinedError: it may train, and cannot be given larger batches.
        """
        from torch.utils.data import get_worker_info

        size, data = bound.get("batch_size", 1), bound["dataset"]
        if type(size) is not int or get_worker_info() is not None:
            return None
        if (given := bound.get("batch_sampler")) is not None:
            shared = getattr(given, "batch_sampler", given)
            if any(one is given or one is shared for one in self.put_together):
                return None  # that of a loader that was given its size already, or a shard of it
            raise DeclinedError("the script puts its batches together itself")
        known = self._known(data)
        if size in known or not _shuffles(bound):
            return None
        if self.tried and str(size) not in self.tried.split(", "):
            raise DeclinedError(
                f"a loader has batches of {size}, and it was tried on batches of {self.tried} "
                "only: they may be larger already, by the patch or by hand"
            )
        larger = round(size * self.times)
        count = len(bound.get("sampler") or data)
        if count // max(larger, 1) < LEAST:
            raise DeclinedError(f"an epoch of {count} samples would have {count // larger} steps")
        known.add(larger)
        self.hand.note_multiplied(KNOB, size)
        return larger

    def remember(self, loader: Any) -> None:
        """A loader that puts its batches together as PyTorch does."""
        if loader.batch_sampler is not None:
            self.put_together.add(loader.batch_sampler)

    def _known(self, data: Any) -> set[int]:
        try:
            return self.made.setdefault(data, set())
        except TypeError:  # nothing can be remembered of it
            return set()


def _shuffles(bound: dict[str, Any]) -> bool:
    """Whether samples come in random order, as they do where a job trains.

    Raises:
        DeclinedError: nobody can tell.
    """
    from torch.utils import data
    from torch.utils.data.distributed import DistributedSampler

    sampler = bound.get("sampler")
    if isinstance(bound["dataset"], data.IterableDataset):
        raise DeclinedError("of an IterableDataset nobody can tell whether it is trained on")
    if isinstance(sampler, DistributedSampler):
        return bool(sampler.shuffle)
    random = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return bool(bound.get("shuffle")) or isinstance(sampler, random)


def turn(hand: KnobSession, times: float) -> None:
    """Have loaders that shuffle made with larger batches."""
    from torch.utils.data import DataLoader

    signature, sizes = inspect.signature(DataLoader.__init__), Sizes(hand, times)

    def larger(bound: dict[str, Any]) -> int | None:
        try:
            return sizes.larger(bound)
        except DeclinedError as reason:
            hand.decline_knobs([KNOB], str(reason))
            return None

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which PyTorch tells better
                original(self, *args, **kwargs)
                return
            size = hand.run_contained([KNOB], larger, bound)
            if size is not None:
                bound |= bound.pop("kwargs", {})
                original(**{**bound, "batch_size": size})
                hand.record_applied(KNOB)
            else:
                original(self, *args, **kwargs)
            if bound.get("batch_sampler") is None:
                hand.run_contained([KNOB], sizes.remember, self)

        return init

    hand.replace_function(DataLoader, "__init__", make)
