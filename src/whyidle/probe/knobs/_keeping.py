"""What keeps samples, whole or in part: how often they are made again, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core import containment as guard
from . import Hand
from ._chains import Chains
from ._shared import EVERY, OFF, Index

KNOB = "dataset.cache"
PROVE = 32
"""samples that are made twice before any is kept"""
OFTEN, SELDOM = 64, 512
"""one of so many looks makes the sample again instead, and so do the first ones of an epoch: of as
many as take as long as that takes, so that it costs no more than they do, between these bounds"""
FIRST = 16


@dataclass
class Source:
    """A dataset in the process where its batches are made, and how it makes samples."""

    dataset: Any
    make: Callable[[list[Any]], Any]
    """a list of samples from a list of indices"""
    singly: bool = True
    """whether it makes those of a batch one after the other"""
    chains: Chains | None = None

    def one(self, index: Any) -> Any:
        """A single sample."""
        return self.make([index])[0]


class Keeping:
    """What is kept of one dataset, in all processes, and what this process knows of it."""

    def __init__(self, hand: Hand, index: Index) -> None:
        self.hand = hand
        self.index = index
        self.looks = 0
        self.make_s = self.read_s = math.inf
        """of a sample, the shortest that was seen: anything else may have had to wait"""

    def safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and the end of it all, where it fails."""
        try:
            return work(*args)
        except Exception as error:  # contained: the job goes on without it
            if guard.handling(error) is not None:
                raise
            self.fault(error)
            return None

    def fault(self, error: Exception) -> None:
        """A mistake of ours: nothing is kept any more, in no process."""
        self.index.state[OFF] = 1
        self.hand.fault([KNOB], error)

    def stop(self, why: str) -> None:
        """Nothing is kept any more, in no process."""
        self.index.state[OFF] = 1
        self.hand.decline([KNOB], why)

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
