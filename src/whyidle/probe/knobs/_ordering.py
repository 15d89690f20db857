"""Which order of a chain's transforms is faster, and gives the same samples.

A transform that makes samples smaller spares those behind it work, so it is tried further ahead:
where it commutes with them, as a crop does with what is done to each pixel alone, the same comes
out. Whether it does is seen, not known: each order gets copies of what the chain is given, with
the same random numbers at hand, and has to give what the chain gives, bit for bit, and leave the
generators where the chain leaves them.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._chance import restore, same, states
from ._codec import decode, encode

Stage = Callable[[Any], Any]

LOOKS = 3
"""samples by which is told what each transform takes"""
TRIES = 3
"""samples that all orders are tried with; then the fastest of them alone"""
PROVE = 32
"""samples that come out the same, before an order is used"""
ACTS = 8
"""of these, two transforms that change places have both changed something in so many: one that
does so by chance, once in twenty samples, says nothing in the others"""
TIRED = 512
"""samples after which an order is given up whose transforms did too little to prove it"""
MOST = 4
"""orders that are tried at a time"""
SMALLER = 0.9
"""of what it is given, a transform that makes samples smaller gives at most this share"""
MORE = "its chain of transforms does more than to apply one after the other"
OTHERWISE = "samples come out otherwise in the order that was the same so far"
SELDOM = "its transforms change something too rarely to prove another order"
GAIN = 0.05
"""share of the chain's time that another order has to spare"""


class OtherwiseError(Exception):
    """The chain is none whose order could be another; the message says why."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a chain was given, and what came of it."""

    blob: bytes
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    told: bytes
    """the generators before and after, and what the chain gave"""


@dataclass(slots=True)
class Tried:
    """An order, how many samples it gave like the chain, and the shortest time for one, s."""

    order: tuple[int, ...]
    alike: int = 0
    least_s: float = float("inf")


@dataclass(slots=True)
class Search:
    """For a better order than ``order``, from sample to sample; ``done`` once there is none."""

    stages: list[Stage]
    order: tuple[int, ...]
    done: bool = False
    took_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    """of each transform in order: the shortest time, s, and what it gives, as share of what it is
    given"""
    looked: int = 0
    base: Tried | None = None
    """the order, once what its transforms take is known"""
    tried: list[Tried] = field(default_factory=list)
    """others, which gave the same so far"""
    acted: Counter[tuple[int, int]] = field(default_factory=Counter)
    """of two transforms in order: samples in which both changed something"""

    def see(self, given: Given) -> None:
        """Learn from one more sample.

        Raises:
            OtherwiseError: the chain does not apply its transforms one after the other.
        """
        if self.base is None:
            self._look(given)
            return
        if not run(self.stages, self.base, given):
            raise OtherwiseError(OTHERWISE)
        self.acted.update(itertools.combinations(self._acting(given), 2))
        self.tried = [one for one in self.tried if run(self.stages, one, given)]
        if self.tried and self.base.alike >= TRIES:
            self._judge(self.base, min(self.tried, key=lambda one: one.least_s))
        self.done = self.done or not self.tried

    def _judge(self, base: Tried, best: Tried) -> None:
        self.tried = [best]
        if best.least_s > (1.0 - GAIN) * base.least_s:
            self.done = True
        elif best.alike >= PROVE and self._acted(best.order):
            self._adopt(best.order)
        elif best.alike >= TIRED:
            raise OtherwiseError(SELDOM)

    def _acted(self, order: tuple[int, ...]) -> bool:
        """Whether all that change places have changed samples together often enough."""
        pairs = set(itertools.combinations(self.order, 2))
        moved = pairs - set(itertools.combinations(order, 2))
        return all(self.acted[pair] >= ACTS for pair in moved)

    def _acting(self, given: Given) -> list[int]:
        """Transforms, in order, that change what they are given of a sample."""
        sample, was, found = decode(given.blob), given.blob, []
        restore(given.before)
        for number in self.order:
            sample = self.stages[number](sample)
            if (now := told(sample)) != was:  # of the same object, perhaps
                found.append(number)
            was = now
        return found

    def _adopt(self, order: tuple[int, ...]) -> None:
        """Take this order, and look for a better one still."""
        self.order, self.looked, self.base, self.tried = order, 0, None, []
        self.took_s, self.ratios = [], []
        self.acted.clear()

    def _look(self, given: Given) -> None:
        sample = decode(given.blob)
        restore(given.before)
        took, sizes = [], [_size(sample)]
        for number in self.order:
            begin = time.perf_counter()
            try:
                sample = self.stages[number](sample)
            except Exception as error:
                raise OtherwiseError(MORE) from error
            took.append(time.perf_counter() - begin)
            sizes.append(_size(sample))
        if told(sample) != given.told or not same(states(), given.after):
            raise OtherwiseError(MORE if self.order == tuple(sorted(self.order)) else OTHERWISE)
        last = self.took_s or took
        self.took_s = [min(pair) for pair in zip(last, took, strict=True)]
        self.ratios = [
            (out / into if into and out else 1.0) for into, out in itertools.pairwise(sizes)
        ]
        self.looked += 1
        if self.looked >= LOOKS:
            self.base = Tried(self.order)
            self.tried = [Tried(order) for order in self._better()]
            self.done = not self.tried

    def _better(self) -> list[tuple[int, ...]]:
        """Orders that may spare most, the best first: one transform that makes samples smaller
        goes before others."""
        found = []
        for at, ratio in enumerate(self.ratios):
            for to in range(at if ratio <= SMALLER else 0):
                larger = 1.0
                for between in self.ratios[to:at]:
                    larger /= between
                spared = sum(self.took_s[to:at]) * (1.0 - ratio)
                spared -= self.took_s[at] * max(0.0, larger - 1.0)
                order = list(self.order)
                order.insert(to, order.pop(at))
                found.append((spared, tuple(order)))
        least = GAIN * sum(self.took_s)
        return [order for spared, order in sorted(found, reverse=True) if spared > least][:MOST]


def run(stages: list[Stage], tried: Tried, given: Given) -> bool:
    """Whether an order gives the same as the chain did; a transform may fail on what it was not
    made for."""
    sample = decode(given.blob)
    restore(given.before)
    begin = time.perf_counter()
    try:
        for number in tried.order:
            sample = stages[number](sample)
        took = time.perf_counter() - begin
        alike = told(sample) == given.told and same(states(), given.after)
    except Exception:
        return False
    if alike:
        tried.alike += 1
        tried.least_s = min(tried.least_s, took)
    return alike


def told(sample: Any) -> bytes:
    """What a sample is, wherever in memory its numbers lie: a crop is a view of what it was cut
    from, and what is done to it afterwards is none.

    Raises:
        UnknownError: it is of no kind that can be compared.
    """
    return encode(sample.contiguous() if hasattr(sample, "contiguous") else sample)


def _size(value: Any) -> int | None:
    """Numbers that an image, an array or a tensor has; None for anything else."""
    if hasattr(value, "getbands"):
        return int(value.size[0] * value.size[1] * len(value.getbands()))
    if hasattr(value, "numel"):
        return int(value.numel())
    size = getattr(value, "size", None)
    return size if isinstance(size, int) else None
