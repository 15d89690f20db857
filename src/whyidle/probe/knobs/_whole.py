"""Whole samples, kept by index once they are proven to be the same every time."""

from __future__ import annotations

import time
from typing import Any

from . import Hand
from ._chance import disturb, own, restore, same, states
from ._codec import UnknownError, decode, encode
from ._contents import changed, fingerprint
from ._keeping import KNOB, PROVE, Keeping, Source
from ._prefix import Prefix
from ._shared import DRAWS, OFF, PROVEN, Index

LEAST = 2.0
"""making a sample must take so many times as long as reading a kept one"""
CHANGES = 2
"""so often a dataset may have changed between epochs: some open their files in the first"""


class Keeper(Keeping):
    """What is kept of one dataset; of one whose samples draw random numbers, ``prefix`` does it."""

    def __init__(self, hand: Hand, index: Index, gone: Any, prefix: Prefix | None) -> None:
        super().__init__(hand, index)
        self.gone = gone
        """says when the dataset goes, as long as it is kept itself"""
        self.prefix = prefix
        self.changes = -1
        self.was: dict[str, Any] = {}

    @property
    def off(self) -> bool:
        """Whether nothing is kept any more."""
        state = self.index.state
        by_prefix = state[DRAWS] and self.prefix is not None and self.prefix.index.state[OFF]
        return bool(state[OFF] or by_prefix)

    def epoch(self, dataset: Any) -> None:
        """Another one begins."""
        self.safely(self._epoch, dataset)

    def _epoch(self, dataset: Any) -> None:
        self.looks = 0
        if self.prefix is not None:
            self.prefix.looks = 0
        if source := own(dataset):
            self.stop(f"the dataset has random numbers of its own: {source}")
            return
        now = fingerprint(dataset)
        if now == self.was:
            return
        names = changed(self.was, now)
        self.changes, self.was = self.changes + 1, now
        if self.changes > CHANGES:
            self.stop(f"the dataset changes from epoch to epoch: {', '.join(names[:3])}")
        elif self.changes:
            self._anew()

    def _anew(self) -> None:
        off = self.index.state[OFF]
        self.index = Index(self.index.room, self.index.items)
        self.index.state[OFF] = off
        self.prefix = self.prefix and self.prefix.anew()

    def items(self, indices: list[Any], source: Source) -> Any:
        """The samples, of which those are made that are not there."""
        make = source.make
        if self.index.state[OFF] or not all(type(one) is int for one in indices):
            return make(indices)
        if self.index.state[DRAWS]:
            ours = self.prefix if source.singly else None
            return make(indices) if ours is None else ours.items(indices, source)
        known = [self.safely(self._known, one) for one in indices]
        wanted = [i for i, one in zip(indices, known, strict=True) if one is None]
        if not wanted:
            return [one[0] for one in known]
        before = self.safely(states)
        begin = time.perf_counter()
        result = make(wanted)
        took_s = time.perf_counter() - begin
        if type(result) is not list or len(result) != len(wanted):
            self.stop("its batches are no lists of samples")
            return result if len(wanted) == len(indices) else make(indices)
        if before is not None:
            self.safely(self._learn, wanted, result, before, source, took_s)
        if len(wanted) < len(indices) and (self.index.state[OFF] or self.index.state[DRAWS]):
            if before is not None:  # what is kept of the others is not to be trusted, either
                self.safely(restore, before)
            return make(indices)
        made = iter(result)
        return [next(made) if one is None else one[0] for one in known]

    def _known(self, item: int) -> tuple[Any] | None:
        data = self.index.get(item)
        if data is None:
            return None
        if self.due():
            return None
        found = (decode(data),)
        self.hand.took(KNOB)
        return found

    def _learn(
        self, indices: list[int], result: list[Any], before: Any, source: Source, took_s: float
    ) -> None:
        """Keep what was made, or see that it may not be kept."""
        now = states()
        if (before[2] is None) != (now[2] is None):
            return  # NumPy came in between: whether it was drawn from is not known
        if not same(before, now):
            self._drawn(source)
            return
        try:
            made = [encode(one) for one in result]
        except UnknownError as error:
            self.stop(f"its samples hold {error}, which is not kept")
            return
        if self.index.state[PROVEN] < PROVE and not self._proven(indices, made, source, took_s):
            return
        for item, data in zip(indices, made, strict=True):
            there = self.index.get(item)
            if there is None:
                self.index.put(item, data)
            elif there != data:
                self.stop(f"sample {item} came out otherwise than before")
                return

    def _drawn(self, source: Source) -> None:
        """They are not the same every time; what comes before their random transforms may be."""
        if self.prefix is None or not source.singly:
            self.stop("its samples draw random numbers")
        else:
            self.index.state[DRAWS] = 1

    def _proven(self, indices: list[int], made: list[bytes], source: Source, took_s: float) -> bool:
        """Make them again, with other random numbers at hand."""
        before = states()
        try:
            disturb()
            other = states()
            again = source.make(indices)
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
        if self.index.state[PROVEN] < PROVE:
            return True
        if self.make_s < LEAST * self.read_s:
            self.stop("its samples are made as fast as kept ones would be read")
            return False
        self.settle()
        return True
