"""A number of the device's that is read when somebody looks at it.

Sums and differences of such numbers are put off as well, products and quotients where it is known
what becomes of them, and the larger or the smaller of two where ``max`` and ``min`` ask for it;
everything else that is done with one reads it first. Whatever has been put off together is read
together, and computed as Python would have: the same operations, in their order, on the same
numbers.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

MOST = 256
"""numbers that are put off before a sum of them is read: each holds memory of the device"""
FOLDS: dict[str, tuple[Callable[..., Any], Callable[..., bool]]] = {
    "max": (max, operator.gt),
    "min": (min, operator.lt),
}
"""of two numbers, and what that asks of the second one about the first"""
EXACT = 2**53
"""whole numbers below it are floats without rounding (IEEE 754)"""
Number = Any
"""a plain one, or one to be read"""
_reading = threading.RLock()
"""a signal's handler may look at a number while one is read"""


class Later:
    """Stands for what ``tensor.item()`` will give. ``fresh``: the very next thing done with it is a
    product or a quotient; ``wide``: all products with it, and with what is made of it, may be put
    off; ``fold``: the very next thing is that ``max`` or ``min`` gets it with another number."""

    __slots__ = ("__weakref__", "_count", "_fold", "_fresh", "_held", "_known", "_made", "_wide")
    __array_ufunc__ = None  # numpy leaves its operators to us

    def __init__(
        self, held: Any = None, made: Any = None, fresh: bool = False, wide: bool = False,
        fold: str = "",
    ) -> None:  # fmt: skip
        self._held = held
        """a tensor and the stream that it was made on"""
        self._made = made
        """operation and what it is of"""
        self._fresh, self._wide, self._fold = fresh, wide, fold
        self._known: Any = None
        self._count = 1 if made is None else sum(_count(each) for each in made[1:])

    def __reduce__(self) -> Any:
        return type(read(self)), (read(self),)

    def __getattr__(self, name: str) -> Any:
        return getattr(read(self), name)


def again(one: Later) -> Number:
    """The same number, of which all that it is used for may be put off."""
    return one._known if one._known is not None else Later(made=(_same, one), wide=True)


def _same(number: Number) -> Number:
    return number


def _count(one: Number) -> int:
    return one._count if type(one) is Later and one._known is None else 0


def plain(one: Any) -> Any:
    """Whatever it is, and a number that is put off itself."""
    return read(one) if type(one) is Later else one


def read(one: Later) -> Number:
    """The number itself.

    Raises:
        RuntimeError: what the device says to reading anything.
    """
    settle([one])
    return one._known


def settle(these: Iterable[Later]) -> None:
    """Read them all, at once. Several threads may look at the same number."""
    with _reading:
        _settle([one for one in these if one._known is None])


def _settle(stack: list[Later]) -> None:
    order, leaves = [], []
    while stack:  # parts come after what is made of them, as often as they are met
        each = stack.pop()
        order.append(each)
        if each._made is None:
            leaves.append(each)
        else:
            stack += [p for p in each._made[1:] if type(p) is Later and p._known is None]
    _fetch(list({id(leaf): leaf for leaf in leaves}.values()))
    for each in reversed(order):
        if each._known is None:
            do, *parts = each._made
            each._known = do(*(p._known if type(p) is Later else p for p in parts))
            each._made = None


def _fetch(leaves: list[Later]) -> None:
    """Read all of a kind, on the stream that they were made on, at once: one wait."""
    import torch

    kinds: dict[Any, list[tuple[Later, Any]]] = {}
    for leaf in leaves:
        held, stream = leaf._held
        kinds.setdefault((held.device, held.dtype, stream), []).append((leaf, held))
    for (device, _, stream), some in kinds.items():
        on = nullcontext() if stream is None else getattr(torch, device.type).stream(stream)
        with torch.no_grad(), on:
            numbers = torch.stack([held for _, held in some]).tolist()
        for (leaf, _), number in zip(some, numbers, strict=True):
            leaf._known, leaf._held = number, None


def _joined(do: Callable[..., Any], left: Number, right: Number, put_off: bool) -> Number:
    other = right if type(left) is Later else left
    if not put_off or type(other) not in (int, float, bool, Later):
        return do(plain(left), plain(right))
    if type(other) is int and abs(other) >= EXACT:
        return do(plain(left), plain(right))  # too large for a float, perhaps: that is told now
    if do is operator.truediv and (type(right) is Later or not right):
        return do(plain(left), plain(right))  # nothing is divided by, perhaps: that is told now
    if not _count(left) + _count(right):
        return do(plain(left), plain(right))
    wide = all(one._wide for one in (left, right) if type(one) is Later)
    return _short(Later(made=(do, left, right), wide=wide))


def _short(made: Later) -> Number:
    return read(made) if made._count >= MOST else made


def _folded(one: Later, ask: Callable[..., bool], left: Number, right: Number) -> bool:
    """``max(first, second)`` asks whether the second is the larger, and gives what is: the one that
    it is given for this comes to stand for what ``max`` will give, and is said to be it. A plain
    number has the question turned around."""
    (do, asks), one._fold = FOLDS[one._fold], ""
    other = right if one is left else left
    if ask not in (operator.gt, operator.lt) or type(other) not in (int, float, bool, Later):
        return ask(plain(left), plain(right))
    self = Later(one._held, one._made, wide=one._wide)
    self._known, self._count = one._known, one._count
    first, second = (right, left) if ask is asks else (left, right)
    parts = [self if each is one else each for each in (first, second)]
    one._held, one._made, one._known = None, (do, *parts), None
    one._count = sum(map(_count, parts))
    one._wide = all(each._wide for each in parts if type(each) is Later)
    _short(one)
    return one is second


def _two_ways(do: Callable[..., Any], when: Callable[[Later, Any], bool]) -> tuple[Any, Any]:
    def forward(self: Later, other: Any) -> Any:
        return _joined(do, self, other, when(self, other))

    def backward(self: Later, other: Any) -> Any:
        return _joined(do, other, self, when(self, other))

    return forward, backward


def _comparing(ask: Callable[..., bool]) -> Callable[[Later, Any], Any]:
    def compare(self: Later, other: Any) -> Any:
        for one in (self, other):
            if type(one) is Later and one._fold:
                return _folded(one, ask, self, other)
        return ask(plain(self), plain(other))

    return compare


def _equip() -> None:
    """Give it all that numbers can do."""
    always = ("add", "sub")
    fresh = ("mul", "truediv")
    for name in (*always, *fresh, "floordiv", "mod", "pow"):
        when: Callable[[Later, Any], bool] = lambda *_: False  # noqa: E731
        if name in always:
            when = lambda *_: True  # noqa: E731
        elif name in fresh:
            when = lambda one, _: one._fresh or one._wide  # noqa: E731
        ways = _two_ways(getattr(operator, name), when)
        setattr(Later, f"__{name}__", ways[0])
        setattr(Later, f"__r{name}__", ways[1])
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Later, f"__{name}__", _comparing(getattr(operator, name)))
    alone: dict[str, Callable[..., Any]] = {
        "float": float, "int": int, "bool": bool, "str": str, "repr": repr, "hash": hash,
        "abs": abs, "neg": operator.neg, "pos": operator.pos, "format": format, "round": round,
        "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "index": operator.index,
        "divmod": divmod, "complex": complex,
    }  # fmt: skip
    for name, do in alone.items():

        def asked(self: Later, *args: Any, _do: Callable[..., Any] = do) -> Any:
            return _do(read(self), *map(plain, args))

        setattr(Later, f"__{name}__", asked)


_equip()
