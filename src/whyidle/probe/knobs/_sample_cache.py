"""Whole samples, kept by index once they are proven to be the same every time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from ..core import containment as guard
from . import KnobSession
from ._dataset_hash import NoHashError, hash_contents
from ._random_state import are_same, disturb_states, find_generator, read_states, restore_states
from ._sample_codec import UnknownError, decode_sample, encode_sample
from ._shared_samples import EVERY, OFF, PROVEN, Index

KNOB = "dataset.cache"
PROVE = 32
"""samples that are made twice before any is kept"""
OFTEN, SELDOM = 64, 512
"""one of so many looks makes the sample again instead, and so do the first ones of an epoch: of as
many as take as long as that takes, so that it costs no more than they do, between these bounds"""
FIRST = 16
LEAST = 2.0
"""making a sample must take so many times as long as reading a kept one"""
CHANGES = 2
"""so often a dataset may have changed between epochs: some open their files in the first"""
Make = Callable[[list[Any]], Any]
"""a list of samples from a list of indices, in the process where batches are made"""


class SampleCache:
    """What is kept of one dataset, in all processes, and what this process knows of it."""

    def __init__(self, hand: KnobSession, index: Index, gone: Any = None) -> None:
        self.hand = hand
        self.index = index
        self.gone = gone
        """says when the dataset goes, as long as it is kept itself"""
        self.looks = 0
        self.make_s = self.read_s = math.inf
        """of a sample, the shortest that was seen: anything else may have had to wait"""
        self.changes = -1
        self.hash = b""

    @property
    def off(self) -> bool:
        """Whether nothing is kept any more."""
        return bool(self.index.state[OFF])

    def safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and the end of it all, where it fails."""
        try:
            return work(*args)
        except Exception as error:  # contained: the job goes on without it
            if guard.signal_of_handler(error) is not None:
                raise
            self.index.state[OFF] = 1
            self.hand.report_fault([KNOB], error)
            return None

    def stop(self, why: str) -> None:
        """Nothing is kept any more, in no process."""
        self.index.state[OFF] = 1
        self.hand.decline_knobs([KNOB], why)

    def begin_epoch(self, dataset: Any) -> None:
        """Another one begins: see whether the script has changed the dataset."""
        self.safely(self._begin_epoch, dataset)

    def _begin_epoch(self, dataset: Any) -> None:
        self.looks = 0
        if source := find_generator(dataset):
            self.stop(f"the dataset has random numbers of its own: {source}")
            return
        try:
            now = hash_contents(dataset)
        except NoHashError as reason:
            self.stop(f"nothing shows whether the dataset changes between epochs: {reason}")
            return
        if now == self.hash:
            return
        self.changes, self.hash = self.changes + 1, now
        if self.changes > CHANGES:
            self.stop("the dataset changes from epoch to epoch")
        elif self.changes:
            self._start_anew()

    def _start_anew(self) -> None:
        off = self.index.state[OFF]
        self.index = Index(self.index.room, self.index.items)
        self.index.state[OFF] = off

    def due(self) -> bool:
        """One more look at what is kept: whether the sample is to be made again instead."""
        every = self.index.state[EVERY] or OFTEN
        self.looks += 1
        first = max(1, min(FIRST, self.index.items // every))
        return self.looks <= first or self.looks % every == 0

    def settle(self) -> None:
        """Say how often a sample is to be made again, for all processes."""
        looks = self.make_s / max(self.read_s, 1e-9)
        self.index.state[EVERY] = int(max(OFTEN, min(SELDOM, looks)))

    def items(self, indices: list[Any], make: Make) -> Any:
        """The samples, of which those are made that are not there."""
        if self.off or not all(type(one) is int for one in indices):
            return make(indices)
        known = [self.safely(self._known, one) for one in indices]
        wanted = [i for i, one in zip(indices, known, strict=True) if one is None]
        if not wanted:
            return [one[0] for one in known]
        before = self.safely(read_states)
        begin = time.perf_counter()
        result = make(wanted)
        took_s = time.perf_counter() - begin
        if type(result) is not list or len(result) != len(wanted):
            self.stop("its batches are no lists of samples")
            return result if len(wanted) == len(indices) else make(indices)
        if before is not None:
            self.safely(self._learn, wanted, result, before, make, took_s)
        if len(wanted) < len(indices) and self.off:
            if before is not None:  # what is kept of the others is not to be trusted, either
                self.safely(restore_states, before)
            return make(indices)
        made = iter(result)
        return [next(made) if one is None else one[0] for one in known]

    def _known(self, item: int) -> tuple[Any] | None:
        data = self.index.get(item)
        if data is None:
            return None
        if self.due():
            return None
        found = (decode_sample(data),)
        self.hand.record_applied(KNOB)
        return found

    def _learn(
        self, indices: list[int], result: list[Any], before: Any, make: Make, took_s: float
    ) -> None:
        """Keep what was made, or see that it may not be kept."""
        now = read_states()
        if (before[2] is None) != (now[2] is None):
            return  # NumPy came in between: whether it was drawn from is not known
        if not are_same(before, now):
            self.stop("its samples draw random numbers")
            return
        try:
            made = [encode_sample(one) for one in result]
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
        before = read_states()
        try:
            disturb_states()
            other = read_states()
            again = make(indices)
            drew = not are_same(other, read_states())
        finally:
            restore_states(before)
        if drew or [encode_sample(one) for one in again] != made:
            self.stop("its samples come out otherwise the second time")
            return False
        begin = time.perf_counter()
        for data in made:
            decode_sample(data)
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
