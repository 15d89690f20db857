"""The transforms of a dataset's chains in another order: those that make samples smaller first,
where that is proven to give the same samples (``_ordering``), by samples in which all of them do
something.

Until then, and now and then afterwards, the chain itself makes the sample; the first one that
comes out otherwise ends it for good. Each process that makes samples finds out for itself. Left
alone are ``torch.nn.Sequential``, chains that are called with several things at once, or that
write into what they are given.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ..core import containment as guard
from . import Hand, _ordering
from ._chains import of_several
from ._chance import restore, states
from ._codec import UnknownError, encode
from ._ordering import Given, OtherwiseError, Search

KNOB = "dataset.transform_order"
EVERY = 64
"""one of so many samples is made by the chain itself, too, and compared"""
NONE = "no other order of its transforms is faster and gives the same samples"
CHANGED = "the list of its transforms changes"
WRITES = "its transforms write into what they are given"
SEVERAL = "its chain of transforms is called with several things at once"
Call = Callable[..., Any]


def turn(hand: Hand) -> None:
    """Watch the chains of every dataset, where its batches are made."""
    from torch.utils.data._utils import fetch

    orders = Orders(hand)

    def make_fetcher(original: Call) -> Call:
        def init(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            hand.contained([KNOB], orders.watch, dataset)
            return original(self, dataset, *args, **kwargs)

        return init

    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        hand.replace(kind, "__init__", make_fetcher)


class Orders:
    """Of all chains in a process."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.kinds: set[type] = set()
        self.chains: dict[int, Chain] = {}

    def watch(self, dataset: Any) -> None:
        """Have calls of the dataset's chains come here."""
        from torch import nn

        for body in of_several(dataset):
            if id(body) in self.chains:  # of an epoch before
                self.chains[id(body)].thread = threading.get_ident()
            else:
                self.chains[id(body)] = Chain(self.hand, body, threading.get_ident())
                self._put(type(body), "forward" if isinstance(body, nn.Module) else "__call__")

    def _put(self, kind: type, name: str) -> None:
        if kind in self.kinds:
            return
        self.kinds.add(kind)

        def make(original: Call) -> Call:
            def call(body: Any, *args: Any, **kwargs: Any) -> Any:
                chain = self.chains.get(id(body))
                if chain is None or chain.off or chain.thread != threading.get_ident():
                    return original(body, *args, **kwargs)
                return chain.call(functools.partial(original, body), args, kwargs)

            return call

        self.hand.replace(kind, name, make)


class Chain:
    """One of them, in one process and thread."""

    def __init__(self, hand: Hand, body: Any, thread: int) -> None:
        self.hand = hand
        self.body = body
        self.thread = thread
        self.off = False
        self.looks = 0
        stages = list(body.transforms)
        self.search = Search(stages, tuple(range(len(stages))))

    def call(self, original: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the chain gives."""
        if kwargs or len(args) != 1:
            self.stop(SEVERAL)
        elif list(map(id, self.body.transforms)) != list(map(id, self.search.stages)):
            self.stop(CHANGED)
        if self.off:
            return original(*args, **kwargs)
        self.looks += 1
        if self.search.done and self.looks % EVERY:
            return self._ordered(original, args[0])
        return self._compared(original, args[0])

    def stop(self, why: str) -> None:
        """The order stays as it is from here on."""
        self.off = True
        self.hand.decline([KNOB], why)

    def _ordered(self, original: Call, sample: Any) -> Any:
        """In the other order; should that fail, as ever, with the same random numbers."""
        before, made = states(), sample
        try:
            for number in self.search.order:
                made = self.search.stages[number](made)
        except Exception as error:
            if guard.handling(error) is not None:
                raise
            restore(before)
            self.stop(f"{_ordering.OTHERWISE}: {type(error).__name__}")
            return original(sample)
        self.hand.took(KNOB)
        return made

    def _compared(self, original: Call, sample: Any) -> Any:
        """As ever, and learned from."""
        seen = self._safely(lambda: (encode(sample), states()))
        made = original(sample)
        if seen is not None:
            self._safely(self._learn, seen[0], seen[1], sample, made)
        return made

    def _learn(self, blob: bytes, before: Any, sample: Any, made: Any) -> None:
        after = states()
        if encode(sample) != blob:
            raise OtherwiseError(WRITES)
        given = Given(blob, before, after, _ordering.told(made))
        try:
            self._judge(given)
        finally:
            restore(after)

    def _judge(self, given: Given) -> None:
        search = self.search
        if search.done:
            if not _ordering.run(search.stages, _ordering.Tried(search.order), given):
                raise OtherwiseError(_ordering.OTHERWISE)
            return
        search.see(given)
        if not search.done:
            return
        if search.order == tuple(range(len(search.stages))):
            raise OtherwiseError(NONE)
        self.hand.choose(KNOB, f"transforms in the order {', '.join(map(_name, self._inorder()))}")

    def _inorder(self) -> list[Any]:
        return [self.search.stages[number] for number in self.search.order]

    def _safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and the end of it all, where it fails or cannot be."""
        try:
            return work(*args)
        except (OtherwiseError, UnknownError) as reason:
            why = str(reason)
            self.stop(f"its samples hold {why}" if isinstance(reason, UnknownError) else why)
        except Exception as error:  # contained: the job goes on without it
            if guard.handling(error) is not None:
                raise
            self.off = True
            self.hand.fault([KNOB], error)
        return None


def _name(stage: Any) -> str:
    return str(getattr(stage, "__name__", type(stage).__name__))
