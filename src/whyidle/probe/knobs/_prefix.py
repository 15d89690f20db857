"""Of samples that are augmented at random, what comes before: kept by index, as whole ones are.

Only the transforms behind the cut (``_cutting``) are applied at each look, to a new copy, and they
draw what they would have drawn: the same sample, bit for bit, and the generators where they would
be. It is proven with the first samples: what is kept is the same with other random numbers at hand,
and with holes in place of what the transforms make; and from it, once another sample was made in
between, comes what the dataset made. Some samples are compared like that in every epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core import containment as guard
from . import Hand
from ._chains import Chains, Taps
from ._chance import disturb, restore, same, states
from ._codec import UnknownError, encode
from ._cutting import UnfitError, Watch, cuts_of, shortened
from ._keeping import KNOB, PROVE, Keeping, Source
from ._shared import OFF, PROVEN, SIGN, Index

LEAST = 1.25
"""making a sample must take so many times as long as the short way"""
OTHER = "the list of its transforms changes"
WORKED_ON = "what its transforms make is worked on, or cannot be made a second time"
MORE = "its chain of transforms does more than to apply one after the other"
OTHERWISE = "what comes before its random transforms comes out otherwise the second time"
NOT_THE_SAME = "its samples come out otherwise from what comes before their random transforms"
NO_GAIN = "its random transforms take nearly all of the time of a sample"


class Made(NamedTuple):
    """A sample that was made in full."""

    item: int
    record: bytes
    before: tuple[Any, ...]
    """the generators"""
    after: tuple[Any, ...]
    told: bytes
    """the sample"""


Way = Callable[[int, Source, Any], Any]
"""to come to a sample, from its index, the dataset, and what is kept of it"""


class Prefix(Keeping):
    """What is kept of one dataset whose samples draw random numbers."""

    def __init__(self, hand: Hand, index: Index, taps: Taps) -> None:
        super().__init__(hand, index)
        self.taps = taps
        self.cuts: dict[int, int] = {}
        self.last: Made | None = None
        """to be made the short way, once another was made"""
        self.full = False

    def anew(self) -> Prefix:
        """The same with nothing kept."""
        made = Prefix(self.hand, Index(self.index.room, self.index.items), self.taps)
        made.index.state[OFF] = self.index.state[OFF]
        return made

    def safely(self, work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and the end of it all, where it fails or cannot be."""

        def tried() -> Any:
            try:
                return work(*args)
            except UnfitError as reason:
                self.stop(str(reason))
            except UnknownError as error:
                self.stop(f"its samples hold {error}, which is not kept")
            return None

        return super().safely(tried)

    def items(self, indices: list[Any], source: Source) -> Any:
        """The samples, one after the other, as their random numbers are drawn."""
        if self.index.state[OFF]:
            return source.make(indices)
        return [self._item(one, source) for one in indices]

    def _item(self, item: int, source: Source) -> Any:
        way = None if self.index.state[OFF] else self.safely(self._way, item, source)
        return source.one(item) if way is None else way[0](item, source, way[1])

    def _way(self, item: int, source: Source) -> tuple[Way, Any] | None:
        """How to come to a sample, and what is kept of it; None: as ever."""
        if not 0 <= item < self.index.items:
            return None
        if source.chains is None:
            source.chains = Chains(self.taps, source.dataset)
        sign = source.chains.sign()
        known = self.index.state[SIGN] or sign
        if sign != known:
            raise UnfitError(OTHER)
        self.index.state[SIGN] = sign
        if self.index.state[PROVEN] < PROVE:
            return self._proving, None
        record = self.index.view(item)
        if record is None:
            return None if self.full else (self._making, None)
        return (self._making if self.due() else self._short), record

    def _short(self, item: int, source: Source, record: Any) -> Any:
        """From what is kept; if that fails, as ever, with the same random numbers."""
        before = self.safely(states)
        if before is None:
            return source.one(item)
        failed = None
        try:
            sample = shortened(record, _chains(source))
        except Exception as error:  # of ours, or of a transform: that comes again
            if guard.handling(error) is not None:
                raise
            failed = error
        if failed is None:
            self.hand.took(KNOB)
            return sample
        self.safely(restore, before)
        sample = source.one(item)
        self.fault(failed)
        return sample

    def _making(self, item: int, source: Source, record: Any) -> Any:
        """As the dataset makes it, to keep it, or to compare it with what is kept."""
        cuts = self.cuts if record is None else self.safely(cuts_of, record)
        watch = None if cuts is None else self.safely(Watch, source.chains, cuts, False)
        if watch is None:
            return source.one(item)
        before = watch.at
        with watch.chains.tapped(watch):
            sample = source.one(item)
        self.safely(self._keep if record is None else self._compare, watch, sample, before, item)
        return sample

    def _keep(self, watch: Watch, sample: Any, before: Any, item: int) -> None:
        if not _numpy_came(before) and not watch.lowered:
            self._put(item, watch.record(sample))

    def _put(self, item: int, record: bytes) -> None:
        if self.index.view(item) is None and not self.index.put(item, record):
            self.full = True

    def _compare(self, watch: Watch, sample: Any, before: Any, item: int) -> None:
        record = watch.record(sample)
        kept: Any = self.index.view(item)
        if watch.lowered or kept != record:
            raise UnfitError(f"sample {item} came out otherwise than before")
        self._agree(Made(item, record, before, states(), encode(sample)), watch.chains)

    def _proving(self, item: int, source: Source, _: Any) -> Any:
        """Cut it twice; then as the dataset makes it, which has to be the same."""
        before = self.safely(states)
        if before is None:
            return source.one(item)
        cut = self.safely(self._cut, item, source, before)
        self.safely(restore, before)
        begin = time.perf_counter()
        sample = source.one(item)
        self.make_s = min(self.make_s, time.perf_counter() - begin)
        if cut is not None:
            self.safely(self._judge, Made(item, cut[0], before, cut[1], b""), sample, source)
        return sample

    def _cut(self, item: int, source: Source, before: Any) -> tuple[bytes, Any] | None:
        """What would be kept of it, and where the generators are when it is made; None where NumPy
        came in between: whether it was drawn from is not known."""
        watch, sample = self._opaque(item, source)
        while watch.lowered:
            restore(before)
            watch, sample = self._opaque(item, source)
        if _numpy_came(before):
            return None
        record, after = watch.record(sample), states()
        disturb()
        watch, sample = self._opaque(item, source)
        if watch.record(sample) != record or watch.lowered:
            raise UnfitError(OTHERWISE)
        return record, after

    def _opaque(self, item: int, source: Source) -> tuple[Watch, Any]:
        watch = Watch(_chains(source), self.cuts, True)
        try:
            with watch.chains.tapped(watch):
                return watch, source.one(item)
        except Exception as error:
            if guard.handling(error) is not None:
                raise
            raise watch.failed or UnfitError(WORKED_ON) from error

    def _judge(self, made: Made, sample: Any, source: Source) -> None:
        """Compare with what the dataset made; and the sample before with the short way."""
        if not same(made.after, states()):
            raise UnfitError(MORE)
        last, self.last = self.last, made._replace(told=encode(sample))
        if last is None:
            return
        self._agree(last, _chains(source))
        self._put(last.item, last.record)
        self.index.state[PROVEN] += 1
        if self.index.state[PROVEN] >= PROVE and self.make_s < LEAST * self.read_s:
            self.stop(NO_GAIN)

    def _agree(self, made: Made, chains: Chains) -> None:
        """See that the short way leads to the same."""
        now = states()
        try:
            restore(made.before)
            begin = time.perf_counter()
            sample = shortened(made.record, chains)
            self.read_s = min(self.read_s, time.perf_counter() - begin)
            agrees = encode(sample) == made.told and same(states(), made.after)
        finally:
            restore(now)
        if not agrees:
            raise UnfitError(NOT_THE_SAME)


def _chains(source: Source) -> Chains:
    assert source.chains is not None
    return source.chains


def _numpy_came(before: tuple[Any, ...]) -> bool:
    return before[2] is None and states()[2] is not None
