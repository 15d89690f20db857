"""Workers that are kept between epochs, as long as the script does not change what they load from.

A kept worker holds the dataset of the epoch in which it was started. Where the training loop draws
new negatives into the dataset, sets its epoch or replaces its transform, the next epoch starts new
workers; where that happens again and again, or where the dataset has no hash to tell it by, workers
are no longer kept. One change is enough to report that the script should not be written this way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import KnobSession
from ._dataset_hash import NoHashError, hash_contents

KNOB = "loader.persistent_workers"
CHANGES = 2
"""changes between epochs after which workers are no longer kept, as for ``dataset.cache``"""
CHANGED = "the loop changes what its workers load from (dataset, collate_fn or worker_init_fn)"


class KeptWorkers:
    """Those of one loader."""

    def __init__(self, hand: KnobSession) -> None:
        self.hand = hand
        self.line = hand.line
        self.hash = b""
        self.left = False
        self.changes = 0

    def begin_epoch(self, loader: Any, others: Iterable[KeptWorkers]) -> bool:
        """Whether workers may be kept on. Where those of ``others`` are, a change is reported only
        of the line that made this loader."""
        was = self.hash
        try:
            self.hash = hash_contents(
                loader.dataset, loader.collate_fn, loader.worker_init_fn, skip_shared=True
            )
        except NoHashError as reason:
            self._report(f"nothing shows whether the loop changes its dataset: {reason}", others)
            return False
        if loader._iterator is None:
            return True
        if was == self.hash:
            _draw_seed(loader)
            return True
        loader._iterator = None  # PyTorch has no public way to end kept workers
        self.changes += 1
        self._report(CHANGED, others)
        return self.changes <= CHANGES

    def _report(self, why: str, others: Iterable[KeptWorkers]) -> None:
        self.left = True
        if any(not other.left and other.line != self.line for other in others):
            self.hand.decline_knobs([KNOB], why, self.line)
        else:
            self.hand.release_knob(KNOB, why)


def _draw_seed(loader: Any) -> None:
    """Starting workers draws their seed from the job's own generator, which shuffles with it next:
    draw it here as well, so that the job's random numbers stay the same."""
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


class Loaders:
    """The loaders whose workers are kept only because of this knob."""

    def __init__(self, hand: KnobSession) -> None:
        self.hand = hand
        self.datasets: weakref.WeakSet[Any] = weakref.WeakSet()
        """theirs: frameworks make loaders anew from the attributes of loaders"""
        self.kept: dict[int, KeptWorkers] = {}
        """by the loader's id: loaders may be pickled, copied or without a hash"""

    def add_loader(self, loader: Any, changed: bool) -> None:
        """A loader was made; ``changed``: by this knob, to keep its workers."""
        try:
            ours = changed or loader.dataset in self.datasets
            if changed:
                self.datasets.add(loader.dataset)
        except TypeError:  # a list, for example, has neither hash nor weak references
            ours = changed
        if ours and loader.persistent_workers:
            self.kept[id(loader)] = KeptWorkers(self.hand)
            weakref.finalize(loader, self.kept.pop, id(loader), None).atexit = False

    def begin_epoch(self, loader: Any) -> None:
        """An iterator of a loader is about to be made."""
        kept = self.kept.get(id(loader))
        if kept is None or self.hand.run_contained(
            [KNOB], kept.begin_epoch, loader, self.kept.values()
        ):
            return
        vars(loader)["persistent_workers"] = False  # PyTorch refuses to set it later
        loader._iterator = None
        del self.kept[id(loader)]


def turn(hand: KnobSession) -> Loaders:
    """Check kept workers whenever an epoch begins."""
    from torch.utils.data import DataLoader

    loaders = Loaders(hand)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(self: Any) -> Any:
            loaders.begin_epoch(self)
            return original(self)

        return iterate

    hand.replace_function(DataLoader, "__iter__", make)
    return loaders
