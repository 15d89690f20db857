"""Persistent workers, as long as the script does not change what they load from.

A persistent worker holds the dataset of the epoch in which it was started. If the training loop
draws new negatives into the dataset, sets its epoch or replaces its transform, the next epoch
starts new workers; after repeated changes, or if the dataset has no hash, workers are no longer
persistent. A single change is enough to withdraw the knob.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import KnobSession
from ._dataset_hash import NoHashError, hash_contents

KNOB = "loader.persistent_workers"
CHANGES = 2
"""changes between epochs after which workers are no longer persistent, as for ``dataset.cache``"""
CHANGED = "the loop changes what its workers load from (dataset, collate_fn or worker_init_fn)"


class KeptWorkers:
    """The persistent workers of one loader."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.line = session.line
        self.hash = b""
        self.left = False
        self.changes = 0

    def begin_epoch(self, loader: Any, others: Iterable[KeptWorkers]) -> bool:
        """Return whether the workers may stay. If those of ``others`` stay, a change is reported
        only for the line that creates this loader."""
        was = self.hash
        try:
            self.hash = hash_contents(
                loader.dataset, loader.collate_fn, loader.worker_init_fn, skip_shared=True
            )
        except NoHashError as reason:
            self._report(f"it is unknown whether the loop changes its dataset: {reason}", others)
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
            self.session.decline_knobs([KNOB], why, self.line)
        else:
            self.session.release_knob(KNOB, why)


def _draw_seed(loader: Any) -> None:
    """Draw what starting workers draws from the job's generator, which shuffles next, so that the
    job's random numbers stay the same."""
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


class Loaders:
    """The loaders whose workers are persistent only because of this knob."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.datasets: weakref.WeakSet[Any] = weakref.WeakSet()
        """their datasets: frameworks create loaders from the attributes of other loaders"""
        self.kept: dict[int, KeptWorkers] = {}
        """by the loader's id, as loaders may be pickled, copied or unhashable"""

    def add_loader(self, loader: Any, changed: bool) -> None:
        """Register a new loader; ``changed``: this knob made its workers persistent."""
        try:
            ours = changed or loader.dataset in self.datasets
            if changed:
                self.datasets.add(loader.dataset)
        except TypeError:  # a list, for example, has neither hash nor weak references
            ours = changed
        if ours and loader.persistent_workers:
            self.kept[id(loader)] = KeptWorkers(self.session)
            weakref.finalize(loader, self.kept.pop, id(loader), None).atexit = False

    def begin_epoch(self, loader: Any) -> None:
        """Check a loader before its iterator is created."""
        kept = self.kept.get(id(loader))
        if kept is None or self.session.run_contained(
            [KNOB], kept.begin_epoch, loader, self.kept.values()
        ):
            return
        vars(loader)["persistent_workers"] = False  # PyTorch refuses to set it later
        loader._iterator = None
        del self.kept[id(loader)]


def check_workers(session: KnobSession) -> Loaders:
    """Check persistent workers whenever an epoch begins."""
    from torch.utils.data import DataLoader

    loaders = Loaders(session)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(self: Any) -> Any:
            loaders.begin_epoch(self)
            return original(self)

        return iterate

    session.replace_function(DataLoader, "__iter__", make)
    return loaders
