"""Multiplies the batch size of loaders that train: those that shuffle.

A loader that does not shuffle evaluates, or has a deliberate order: it stays as it is. So do
batches from a sampler of the script's own, streams without an index, and datasets that would have
too few batches left. The loader has its new length from the start, so that schedules computed from
it are right.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from . import DeclinedError, KnobSession

KNOB = "loader.batch_size_times"
LEAST = 10
"""fewest batches that an epoch must have left"""


class Sizes:
    """The batch sizes of the loaders of one process."""

    def __init__(self, session: KnobSession, times: float) -> None:
        self.session, self.times = session, times
        was = session.was.get(KNOB)
        self.tried = was if isinstance(was, str) else ""
        """batch sizes that the plan was made for; not yet known in its trial"""
        self.made: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
        """dataset -> enlarged sizes: frameworks create loaders from the attributes of others"""
        self.put_together: weakref.WeakSet[Any] = weakref.WeakSet()
        """batch samplers that loaders created themselves, which frameworks reuse as well"""

    def enlarged_size(self, bound: dict[str, Any]) -> int | None:
        """Return the batch size for a loader that is being created; None to leave it unchanged.

        Raises:
            DeclinedError: the loader may train, and its batches cannot be enlarged.
        """
        from torch.utils.data import get_worker_info

        size, data = bound.get("batch_size", 1), bound["dataset"]
        if type(size) is not int or get_worker_info() is not None:
            return None
        if (given := bound.get("batch_sampler")) is not None:
            shared = getattr(given, "batch_sampler", given)
            if any(sampler is given or sampler is shared for sampler in self.put_together):
                return None  # of a loader whose size is set already, or a shard of it
            raise DeclinedError("the script has a batch sampler of its own")
        known = self._enlarged_sizes(data)
        if size in known or not _shuffles(bound):
            return None
        if self.tried and str(size) not in self.tried.split(", "):
            raise DeclinedError(
                f"a loader has batches of {size}, but it was tried on batches of {self.tried} "
                "only: the batch size may have been raised already, by the patch or by hand"
            )
        larger = round(size * self.times)
        count = len(bound.get("sampler") or data)
        if count // max(larger, 1) < LEAST:
            raise DeclinedError(f"an epoch of {count} samples would have {count // larger} steps")
        known.add(larger)
        self.session.note_multiplied(KNOB, size)
        return larger

    def remember(self, loader: Any) -> None:
        """Remember the batch sampler that a loader created itself."""
        if loader.batch_sampler is not None:
            self.put_together.add(loader.batch_sampler)

    def _enlarged_sizes(self, data: Any) -> set[int]:
        try:
            return self.made.setdefault(data, set())
        except TypeError:  # it has no weak references
            return set()


def _shuffles(bound: dict[str, Any]) -> bool:
    """Whether samples come in random order, as in training.

    Raises:
        DeclinedError: unknown.
    """
    from torch.utils import data
    from torch.utils.data.distributed import DistributedSampler

    sampler = bound.get("sampler")
    if isinstance(bound["dataset"], data.IterableDataset):
        raise DeclinedError("whether an IterableDataset is used for training is unknown")
    if isinstance(sampler, DistributedSampler):
        return bool(sampler.shuffle)
    random = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return bool(bound.get("shuffle")) or isinstance(sampler, random)


def enlarge_batches(session: KnobSession, times: float) -> None:
    """Multiply the batch size of loaders that shuffle."""
    from torch.utils.data import DataLoader

    signature, sizes = inspect.signature(DataLoader.__init__), Sizes(session, times)

    def find_size(bound: dict[str, Any]) -> int | None:
        try:
            return sizes.enlarged_size(bound)
        except DeclinedError as reason:
            session.decline_knobs([KNOB], str(reason))
            return None

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:  # the script's own mistake, which PyTorch reports better
                original(self, *args, **kwargs)
                return
            size = session.run_contained([KNOB], find_size, bound)
            if size is not None:
                bound |= bound.pop("kwargs", {})
                original(**{**bound, "batch_size": size})
                session.record_applied(KNOB)
            else:
                original(self, *args, **kwargs)
            if bound.get("batch_sampler") is None:
                session.run_contained([KNOB], sizes.remember, self)

        return init

    session.replace_function(DataLoader, "__init__", make)
