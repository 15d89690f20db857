"""What an object holds, looked at for a short time, to see later whether somebody changed it.

Looked into are attributes, lists, tuples and dicts, what functions are bound to, and arrays: texts
and numbers by their values, arrays by a checksum, tensors also by how often they were written to,
everything else by what object it is. Of what is long or large only some of it, evenly spread, is
seen: of a few changed elements among very many nothing may be. Not seen are global variables, and
what lies in ``__slots__``, in objects of other languages (a data frame), below ``DEPTH``, or in a
large file that is mapped.
"""

from __future__ import annotations

import sys
import types
import zlib
from collections import deque
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from ._held import attributes, held_by
from ._mapped import Maps, Owner

NUMBERS = frozenset([bool, int, float, complex, type(None)])
TEXTS = frozenset([str, bytes])
DEPTH, MOST = 8, 10_000
"""how deep, and at how many things, of each attribute: 40 to 100 ms"""
FEW, MANY = 64, 4_096
"""a container of more elements is looked into last, and into so many of them at most"""
VALUES = 1 << 18
"""texts and numbers of each attribute, at most: up to 70 ms"""
WHOLES = 4
"""so often as much of all attributes; of others only a little of each thing is looked at"""
WHOLE_BYTES = 32 << 20
"""arrays in whole, all together: 30 ms; of others, so many elements each:"""
ELEMENTS = 4_096
NO_ARRAY = (AttributeError, TypeError, RuntimeError, BufferError)
"""of a tensor, where NumPy is too old for it, or has no such type"""


def fingerprint(value: Any, *, shared: bool = True) -> dict[str, Any]:
    """By attribute, what compares as equal as long as it was not changed; what other processes
    ``shared`` with this one stands for itself where that is of no interest."""
    look, named = _Look(shared), dict(attributes(value))
    if not named or isinstance(value, (list, tuple, dict, types.FunctionType)):
        named[""] = value
    return {name: look.at(one) for name, one in named.items()}


def changed(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The attributes that were."""
    return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


class _Look:
    """At the attributes of an object, one after the other."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.seen: set[int] = set()
        self.bytes_left = WHOLE_BYTES
        self.things_left, self.all_values_left = WHOLES * MOST, WHOLES * VALUES
        self.values_left = 0
        self.maps: Maps | None = None

    def at(self, value: Any) -> tuple[Any, ...]:
        """All that is told of one."""
        own = self.values_left = min(VALUES, max(self.all_values_left, MANY))
        told = self._all(value, min(MOST, max(self.things_left, MANY // 8)))
        self.things_left -= len(told)
        self.all_values_left -= own - self.values_left
        return told

    def _all(self, value: Any, most: int) -> tuple[Any, ...]:
        told: list[Any] = []
        soon: deque[tuple[Any, int]] = deque([(value, 0)])
        later: deque[tuple[Any, int]] = deque()  # of what is long: nothing else waits for it
        while (soon or later) and len(told) < most:
            one, depth = (soon or later).popleft()
            if type(one) in NUMBERS or (type(one) in TEXTS and len(one) <= MANY):
                told.append(one)
            elif id(one) not in self.seen:
                self.seen.add(id(one))
                own, held = self._into(one)
                told.append((id(one), own))
                if depth < DEPTH:
                    (soon if len(held) <= FEW else later).extend((x, depth + 1) for x in held)
        return tuple(told)

    def _into(self, one: Any) -> tuple[Any, Sequence[Any]]:
        """What it is itself, and what is to be looked at after it."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and type(one) is torch.Tensor:
            return self._tensor(one, numpy), ()
        if numpy is not None and isinstance(one, numpy.ndarray):
            return self._array(one), ()
        if isinstance(one, (list, tuple, dict)):
            parts = [list(one), list(one.values())] if isinstance(one, dict) else [one]
            values = [self._values(part) for part in parts]
            held = [
                part[:: _stride(part, MANY)]
                for part, known in zip(parts, values, strict=True)
                if known is None
            ]
            return (len(one), *values), list(chain.from_iterable(held))
        return None, held_by(one)

    def _values(self, many: Sequence[Any]) -> int | None:
        """One number that tells texts and numbers, or tuples of them; None of what holds others."""
        most = max(self.values_left, FEW)
        some = many[:: _stride(many, most)]
        if some and set(map(type, some)) == {tuple}:
            some = some[:: _stride(range(len(some) * len(some[0])), most)]
            some = tuple(islice(chain.from_iterable(some), most))
        self.values_left -= len(some)
        return hash(tuple(some)) if set(map(type, some)) <= NUMBERS | {str} else None

    def _owner(self, address: int) -> Owner:
        if self.maps is None:
            self.maps = Maps()
        return self.maps.of(address)

    def _tensor(self, one: Any, numpy: Any) -> Any:
        written = 0 if one.is_inference() else one._version
        if numpy is None or one.device.type != "cpu" or one.layout != sys.modules["torch"].strided:
            return written
        if not self.shared and one.is_shared():
            return tuple(one.shape)
        try:
            return written, self._array(numpy.from_dlpack(one.detach()))
        except NO_ARRAY:
            return written

    def _array(self, array: Any) -> tuple[Any, ...]:
        kind, some = (array.shape, array.dtype.str), array
        owner = self._owner(array.__array_interface__["data"][0])
        if owner.shared and not owner.file and not self.shared:
            return kind
        if array.nbytes <= self.bytes_left:
            self.bytes_left -= array.nbytes
        elif owner.file:  # elements here and there would be read from a disk each
            return kind
        else:
            some = array.flat[:: _stride(range(array.size), ELEMENTS)]
        return *kind, zlib.crc32(some.tobytes())


def _stride(many: Sequence[Any], most: int) -> int:
    return max(1, -(-len(many) // most))
