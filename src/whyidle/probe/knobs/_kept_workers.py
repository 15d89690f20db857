"""Workers that are kept between epochs, as long as what they have copies of stays as it was.

A kept worker has the dataset of the epoch that it was started in. Where the training loop draws new
negatives into it, tells it the epoch or exchanges its transform, an epoch begins with new workers,
which draws the random number that it would have drawn without us; where that happens again and
again, workers are no longer kept. Once is enough to say that the script should not be written so.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import Hand
from ._contents import changed, fingerprint

KNOB = "loader.persistent_workers"
CHANGES = 2
"""so often what is loaded may have changed between epochs: as with ``dataset.cache``"""


class Kept:
    """What one loader's workers have copies of."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.line = hand.line
        self.was: dict[str, Any] = {}
        self.changes = 0

    def epoch(self, loader: Any, others: Iterable[Kept]) -> bool:
        """Another one begins: whether workers may be kept on. Where those of ``others`` are, too,
        only the line that made this loader should not be written so."""
        was, self.was = self.was, _copied(loader)
        if loader._iterator is None:
            return True
        if was == self.was:
            _draw(loader)
            return True
        loader._iterator = None  # its workers end where nobody has it any more, as without us
        self.changes += 1
        names = ", ".join(changed(was, self.was)[:3])
        why = f"the loop changes what its workers load from: {names}"
        if any(not other.changes and other.line != self.line for other in others):
            self.hand.decline([KNOB], why, self.line)
        else:
            self.hand.release(KNOB, why)
        return self.changes <= CHANGES


def _copied(loader: Any) -> dict[str, Any]:
    """What workers are started with."""
    held = fingerprint(loader.dataset, shared=False)  # workers have that itself, and may fill it
    found = {f"dataset.{name}": one for name, one in held.items()}
    for part in ("collate_fn", "worker_init_fn"):
        found[part] = fingerprint(getattr(loader, part), shared=False)
    return found


def _draw(loader: Any) -> None:
    """What seeds new workers is drawn from the job's own generator, which shuffles with it next."""
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


class Ours:
    """The loaders whose workers would not be kept but for us."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.datasets: weakref.WeakSet[Any] = weakref.WeakSet()
        """theirs: frameworks make loaders anew from what loaders say of themselves"""
        self.kept: dict[int, Kept] = {}
        """by what loader it is: it may be pickled, copied or compared, and nothing of ours hangs on
        it"""

    def made(self, loader: Any, told: bool) -> None:
        """A loader was made; ``told``: by us, to keep its workers."""
        try:
            ours = told or loader.dataset in self.datasets
            if told:
                self.datasets.add(loader.dataset)
        except TypeError:  # a list, say: nothing can be remembered of it
            ours = told
        if ours and loader.persistent_workers:
            self.kept[id(loader)] = Kept(self.hand)
            weakref.finalize(loader, self.kept.pop, id(loader), None).atexit = False

    def begins(self, loader: Any) -> None:
        """An epoch of it."""
        kept = self.kept.get(id(loader))
        if kept is None or self.hand.contained([KNOB], kept.epoch, loader, self.kept.values()):
            return
        vars(loader)["persistent_workers"] = False  # PyTorch lets nobody set it later
        loader._iterator = None
        del self.kept[id(loader)]


def turn(hand: Hand) -> Ours:
    """Have them looked at where epochs begin."""
    from torch.utils.data import DataLoader

    ours = Ours(hand)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def begun(self: Any) -> Any:
            ours.begins(self)
            return original(self)

        return begun

    hand.replace(DataLoader, "__iter__", make)
    return ours
