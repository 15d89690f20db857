"""A sample cut in two: what is the same every time, and the random transforms at its end.

While a sample is made, its chains of transforms are listened to. What enters the first transform
that draws random numbers is noted, with the sample around what the chain makes: in its place is a
hole. From both, the transforms that are left make the sample again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core import containment as guard
from ._chains import Call, Chains
from ._chance import same, states
from ._codec import PLAIN, Hole, Snapshot, UnknownError, decode, encode

BEFORE = "its samples draw random numbers before their transforms"
AFTER = "its samples draw random numbers after their transforms"
OUTSIDE = "its samples draw random numbers, and none of their transforms is called"
BY_NAME = "its transforms are called by names of arguments"
ELSEWHERE = "what its transforms make is not found in the sample, once and as it is"
PLAINLY = "its transforms make a plain number or text, which is not told from others"
TOO_OFTEN = "its transforms are called very often for one sample"
MOST = 32
"""parts that chains make of a sample; more make who tries again and again, whatever goes wrong"""


class UnfitError(Exception):
    """A sample cannot be cut; the message says why, for people."""


class Watch:
    """Listens while one sample is made.

    ``cuts`` says for each chain how many transforms come before the cut, all of them where it says
    nothing; where one of those draws random numbers, the cut is put before it from then on.
    ``opaque``: the dataset gets holes for what its chains make, so that it can do nothing with them
    but hand them on, and what enters a chain is copied, so that it stays as it was.
    """

    def __init__(self, chains: Chains, cuts: dict[int, int], opaque: bool) -> None:
        self.chains = chains
        self.cuts = cuts
        self.opaque = opaque
        self.lowered = False
        """whether a cut was put elsewhere meanwhile, so that this sample is not cut"""
        self.calls: list[list[Any]] = []
        """of a chain: its number, the cut, what entered the next transform"""
        self.given: list[Any] = []
        """what the dataset got of the chains"""
        self.failed: Exception | None = None
        self.inside = False
        self.at = states()
        """of the generators, where nobody but a chain may have drawn since"""

    def __call__(
        self, body: Any, original: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a chain gives. Nothing of ours fails in here: it would fail the job."""
        number = self.chains.numbers.get(id(body))
        if number is None or self.inside or self.failed is not None:
            return original(*args, **kwargs)
        self.inside = True
        try:
            values = self._ours(self._entered, args, kwargs)
            if values is None:
                return original(*args, **kwargs)
            made = result(self._through(number, values))
            given = self._ours(self._left, made)
            return made if self.failed is not None else given
        finally:
            self.inside = False

    def _ours(self, work: Callable[..., Any], *args: Any) -> Any:
        try:
            return work(*args)
        except Exception as error:  # told when the sample is made
            if guard.handling(error) is not None:
                raise
            self.failed = error
            return None

    def _entered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if kwargs or not args:
            raise UnfitError(BY_NAME)
        if len(self.given) >= MOST:
            raise UnfitError(TOO_OFTEN)
        if not same(self.at, states()):
            raise UnfitError(BEFORE)
        return tuple(map(_copied, args)) if self.opaque else args

    def _through(self, number: int, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values behind the last transform."""
        stages = self.chains.stages(number)
        cut = min(self.cuts.get(number, len(stages)), len(stages))
        for place, stage in enumerate(stages):
            if place == cut:
                self._ours(self._keep, number, cut, values)
            values = step(stage, values)
            if place < cut and not self._ours(self._undrawn):
                self.cuts[number] = cut = place
                self.lowered = True
        if cut == len(stages):
            self._ours(self._keep, number, cut, values)
        return values

    def _undrawn(self) -> bool:
        return same(self.at, states())

    def _keep(self, number: int, cut: int, values: tuple[Any, ...]) -> None:
        self.calls.append([number, cut, Snapshot(values)])

    def _left(self, made: Any) -> Any:
        """What the dataset gets."""
        self.at = states()
        parts = parts_of(made)
        if any(type(one) in PLAIN or (type(one) is tuple and not one) for one in parts):
            raise UnfitError(PLAINLY)
        if not self.opaque:
            self.given += parts
            return made
        holes = [Hole(len(self.given) + number) for number in range(len(parts))]
        self.given += holes
        return tuple(holes) if type(made) is tuple else holes[0]

    def record(self, sample: Any) -> bytes:
        """All that is kept of the sample that was made.

        Raises:
            UnfitError: it cannot be cut.
            UnknownError: it holds something that is not kept.
        """
        if self.failed is not None:
            raise self.failed
        if not same(self.at, states()):
            raise UnfitError(AFTER if self.given else OUTSIDE)
        used: list[int] = []
        numbers = {id(one): number for number, one in enumerate(self.given)}
        template = _replaced(sample, lambda one: numbers.get(id(one)), Hole, used)
        if sorted(used) != list(range(len(self.given))):
            raise UnfitError(ELSEWHERE)
        return encode([template, self.calls])


def cuts_of(record: Any) -> dict[int, int]:
    """Where the chains of a kept sample were cut."""
    return {number: cut for number, cut, _ in decode(record)[1]}


def shortened(record: Any, chains: Chains) -> Any:
    """The sample, from what is kept and the transforms behind it."""
    template, calls = decode(record)
    parts: list[Any] = []
    for number, cut, entered in calls:
        values = entered
        for stage in chains.stages(number)[cut:]:
            values = step(stage, values)
        parts += parts_of(result(values))
    return _replaced(
        template, lambda one: one.number if type(one) is Hole else None, parts.__getitem__, []
    )


def step(stage: Call, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One transform: of one value, or of several that go through the chain together."""
    made = stage(*values)
    return (made,) if len(values) == 1 else tuple(made)


def result(values: tuple[Any, ...]) -> Any:
    """What a chain gives where these are behind its last transform."""
    return values[0] if len(values) == 1 else values


def parts_of(made: Any) -> Sequence[Any]:
    """What a dataset may put in different places."""
    return made if type(made) is tuple and made else (made,)


def _replaced(value: Any, number_of: Callable[[Any], int | None], by: Call, used: list[int]) -> Any:
    """The value with others in place of what has a number; ``used`` gets the numbers."""
    number = number_of(value)
    if number is not None:
        used.append(number)
        return by(number)
    if type(value) in (list, tuple):
        return type(value)(_replaced(one, number_of, by, used) for one in value)
    if type(value) is dict:
        return {key: _replaced(one, number_of, by, used) for key, one in value.items()}
    return value


def _copied(value: Any) -> Any:
    """Another one like it; itself where it is of a kind that is not known."""
    try:
        return decode(encode(value))
    except UnknownError:
        return value
