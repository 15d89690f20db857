"""A number of the device's that is read when somebody looks at it.

Sums and differences of such numbers are put off as well, products and quotients where the number
comes straight from the device; everything else that is done with one reads it first. Whatever has
been put off together is read together, and computed as Python would have: the same operations, in
their order, on the same numbers.
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
Number = Any
"""a plain one, or one to be read"""
_reading = threading.RLock()
"""a signal's handler may look at a number while one is read"""


class Later:
    """Stands for what ``tensor.item()`` will give. ``fresh``: the very next thing done with it is a
    product or a quotient."""

    __slots__ = ("__weakref__", "_count", "_fresh", "_held", "_known", "_made")
    __array_ufunc__ = None  # numpy leaves its operators to us

    def __init__(self, held: Any = None, made: Any = None, fresh: bool = False) -> None:
        self._held = held
        """a tensor and the stream that it was made on"""
        self._made = made
        """operation, left, right"""
        self._fresh = fresh
        self._known: Any = None
        self._count = 1 if made is None else sum(_count(each) for each in made[1:])

    def __reduce__(self) -> Any:
        return type(read(self)), (read(self),)

    def __getattr__(self, name: str) -> Any:
        return getattr(read(self), name)


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
            do, left, right = each._made
            each._known = do(*(p._known if type(p) is Later else p for p in (left, right)))
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
    if not _count(left) + _count(right):
        return do(plain(left), plain(right))
    made = Later(made=(do, left, right))
    return read(made) if made._count >= MOST else made


def _two_ways(do: Callable[..., Any], when: Callable[[Later, Any], bool]) -> tuple[Any, Any]:
    def forward(self: Later, other: Any) -> Any:
        return _joined(do, self, other, when(self, other))

    def backward(self: Later, other: Any) -> Any:
        return _joined(do, other, self, when(self, other))

    return forward, backward


def _equip() -> None:
    """Give it all that numbers can do."""
    always = ("add", "sub")
    fresh = ("mul", "truediv")
    for name in (*always, *fresh, "floordiv", "mod", "pow"):
        when: Callable[[Later, Any], bool] = lambda *_: False  # noqa: E731
        if name in always:
            when = lambda *_: True  # noqa: E731
        elif name in fresh:
            when = lambda one, _: one._fresh  # noqa: E731
        ways = _two_ways(getattr(operator, name), when)
        setattr(Later, f"__{name}__", ways[0])
        setattr(Later, f"__r{name}__", ways[1])
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Later, f"__{name}__", _two_ways(getattr(operator, name), lambda *_: False)[0])
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
