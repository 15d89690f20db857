"""Batches as long as their longest sequence, where all of them are padded to a maximum.

The first batches are as ever: with them it is proven that the model makes the same of a batch
without the padding at its end (``_unpadded``), and that the loss leaves it out. From then on what a
mask shows to be padding is cut off where batches are made, each batch by itself. Random numbers of
dropout are drawn for fewer positions, so they are others.

Only batches of the datasets that it was proven with, and of those none where gradients are turned
off when they begin to be read: what a model says of the batches of an evaluation is put together by
many scripts, which takes equal lengths.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable
from typing import Any

from ..core import containment as guard
from . import NO_FORM, Hand
from ._trimming import Cut, UnfitError, cut_of, given, trimmed
from ._unpadded import told_apart
from .model import Call, outermost

KNOB = "collate.pad_to"
PROVE = 3
"""batches with which it is proven"""
TRIES = 24
"""batches, one after the other, that nothing could be cut off, after which nobody looks any more"""
LEARNING, PROVEN, OFF = 0, 1, 2


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Trim what loaders make, once that is known to be the same."""
    import torch
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    hand.decline([knob for knob in edits if knob != KNOB], NO_FORM)
    if edits.get(KNOB) != "longest":
        return
    trims = Trims(hand)

    def make_init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
            original(self, dataset, *args, **kwargs)
            self._whyidle_trains = dataset if torch.is_grad_enabled() else None

        return init

    def make_fetch(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetched(self: Any, *args: Any, **kwargs: Any) -> Any:
            data = original(self, *args, **kwargs)
            own = id(getattr(self, "_whyidle_trains", None))
            return trims.made(data) if trims.state[0] == PROVEN and own in trims.of else data

        return fetched

    def make_next(original: Callable[..., Any]) -> Callable[..., Any]:
        def following(self: Any) -> Any:
            data = original(self)
            if trims.state[0] == LEARNING and not hand.child:
                trims.safely(trims.taken, data, self._dataset)
            return data

        return following

    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        hand.replace(kind, "__init__", make_init)
        hand.replace(kind, "fetch", make_fetch)
    hand.replace(dataloader._BaseDataLoaderIter, "__next__", make_next)
    outermost(hand, edits, trims.wrap)
    hand.undo.append(lambda: trims.state.__setitem__(0, OFF))


class Trims:
    """What one job has learned of its batches and its model. ``state`` is the workers', too."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.state: Any = memoryview(mmap.mmap(-1, 1))
        self.of: Any = memoryview(mmap.mmap(-1, 8 * PROVE)).cast("Q")
        """by its id, the dataset of each proof; the workers', too"""
        self.held: list[Any] = []
        """these datasets: no other is to get such an id"""
        self.now: Cut | None = None
        """what could be cut off the batch that the script has now"""
        self.dataset: Any = None
        """where that is from"""
        self.models = self.proofs = self.tries = 0

    def stop(self, why: str) -> None:
        """Trim nothing any more."""
        self.state[0] = OFF
        self.hand.decline([KNOB], why)

    def safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and the end of it all, where it fails."""
        try:
            return work(*args)
        except UnfitError as reason:
            self.stop(str(reason))
        except Exception as error:  # contained: the job goes on without it
            if guard.handling(error) is not None:
                raise
            self.state[0] = OFF
            self.hand.fault([KNOB], error)
        return None

    def taken(self, data: Any, dataset: Any) -> None:
        """The script is given a batch, which is whole still."""
        self.now, self.dataset = cut_of(data), dataset
        self.tries = 0 if self.now is not None else self.tries + 1
        if self.tries > TRIES:
            self.stop("no mask shows that batches end in padding which could be cut off")

    def wrap(self, model: Any, call: Call) -> Call:
        """Called instead of the model: the first batches prove it. Of several, what the script does
        between them would have to be proven, too."""
        self.models += 1
        if self.models > 1:
            self.stop("the step calls several models, and what lies between them is not known")
            return call

        own: Callable[[], Any] = weakref.ref(model)

        def proving(*args: Any, **kwargs: Any) -> Any:
            model = own()  # it is being called, and so is there
            if self.state[0] == LEARNING and self.now is not None and model.training:
                self.safely(self._prove, model, call, args, kwargs)
            return call(*args, **kwargs)

        return proving

    def _prove(self, model: Any, call: Call, args: Any, kwargs: Any) -> None:
        cut, self.now = self.now, None
        assert cut is not None
        cut = given(cut, args, kwargs)
        if cut is None:
            return
        if not told_apart(model, call, args, kwargs, cut) and not cut.ignored:
            raise UnfitError("whether its loss leaves padding out is not told")
        self.held.append(self.dataset)
        self.of[self.proofs] = id(self.dataset)
        self.proofs += 1
        if self.proofs >= PROVE and self.state[0] == LEARNING:
            self.state[0] = PROVEN

    def made(self, data: Any) -> Any:
        """Where batches are made: the batch, or less of it."""
        less = self.safely(self._less, data)
        return data if less is None else less

    def _less(self, data: Any) -> Any:
        cut = cut_of(data)
        if cut is None:
            return None
        less = trimmed(data, cut)
        self.hand.took(KNOB)
        return less
