"""What an object holds, looked at for a short time, to see later whether somebody changed it.

Looked into are attributes, lists, tuples and dicts, what functions are bound to, and arrays: texts
and numbers by their values, arrays by a checksum, tensors also by how often they were written to,
everything else by what object it is. Of what is long or large only some of it, evenly spread, is
seen: of a few changed elements among very many nothing may be. Not seen are global variables, and
what lies in ``__slots__``, in objects of other languages (a data frame), below ``DEPTH``, or in a
large file that is mapped.
"""

from __future__ import annotations

import functools
import sys
import types
import zlib
from collections import deque
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from ._names import names_of

NUMBERS = frozenset([bool, int, float, complex, type(None)])
TEXTS = frozenset([str, bytes])
OPAQUE = (type, types.ModuleType, types.CodeType)
DEPTH, MOST = 8, 10_000
"""how deep, and at how many things, of each attribute: 40 to 100 ms"""
FEW, MANY = 64, 4_096
"""a container of more elements is looked into last, and into so many of them at most"""
VALUES = 1 << 18
"""texts and numbers of one list, at most: up to 70 ms"""
WHOLE_BYTES = 32 << 20
"""arrays in whole, all together: 30 ms; of others, so many elements each:"""
ELEMENTS = 4_096


def fingerprint(value: Any, *, shared: bool = True) -> dict[str, Any]:
    """By attribute, what compares as equal as long as it was not changed; what other processes
    ``shared`` with this one stands for itself where that is of no interest."""
    look, named = _Look(shared), dict(getattr(value, "__dict__", {}))
    if not named or isinstance(value, (list, tuple, dict, types.FunctionType)):
        named[""] = value
    return {str(name): look.at(one) for name, one in named.items()}


def changed(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The attributes that were."""
    return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


class _Look:
    """At the attributes of an object, one after the other."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.seen: set[int] = set()
        self.bytes_left = WHOLE_BYTES

    def at(self, value: Any) -> tuple[Any, ...]:
        """All that is told of one."""
        told: list[Any] = []
        soon: deque[tuple[Any, int]] = deque([(value, 0)])
        later: deque[tuple[Any, int]] = deque()  # of what is long: nothing else waits for it
        while (soon or later) and len(told) < MOST:
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
            return self._array(one, mapped=isinstance(one, numpy.memmap)), ()
        if isinstance(one, (list, tuple, dict)):
            parts = [list(one), list(one.values())] if isinstance(one, dict) else [one]
            values = [_values(part) for part in parts]
            held = [
                part[:: _stride(part, MANY)]
                for part, known in zip(parts, values, strict=True)
                if known is None
            ]
            return (len(one), *values), list(chain.from_iterable(held))
        return None, _held(one)

    def _tensor(self, one: Any, numpy: Any) -> Any:
        if not self.shared and one.is_shared():
            return tuple(one.shape)
        written = 0 if one.is_inference() else one._version
        if numpy is None or one.device.type != "cpu":
            return written
        try:
            return written, self._array(numpy.from_dlpack(one.detach()))
        except (TypeError, RuntimeError, BufferError):  # NumPy has no such type or layout
            return written

    def _array(self, array: Any, *, mapped: bool = False) -> tuple[Any, ...]:
        some = array
        if array.nbytes <= self.bytes_left:
            self.bytes_left -= array.nbytes
        elif mapped:  # elements here and there would be read from a disk each
            return array.shape, array.dtype.str, None
        else:
            some = array.flat[:: _stride(range(array.size), ELEMENTS)]
        return array.shape, array.dtype.str, zlib.crc32(some.tobytes())


def _held(one: Any) -> list[Any]:
    """What an object or a function holds."""
    if isinstance(one, functools.partial):
        return [one.func, one.args, one.keywords]
    if isinstance(one, types.MethodType):
        named = getattr(one.__self__, "__dict__", {})
        return [named[name] for name in sorted(names_of(one)) if name in named]
    if isinstance(one, types.FunctionType):
        cells = [held for cell in one.__closure__ or () for held in _within(cell)]
        return [one.__defaults__, one.__kwdefaults__, *cells]
    if isinstance(one, OPAQUE) or type(one).__module__.partition(".")[0] == "logging":
        return []
    return list(getattr(one, "__dict__", {}).values())


def _within(cell: Any) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing in it yet
        return []


def _values(many: Sequence[Any]) -> int | None:
    """One number that tells texts and numbers, or tuples of them; None of what holds others."""
    some = many[:: _stride(many, VALUES)]
    if some and set(map(type, some)) == {tuple}:
        some = some[:: _stride(range(len(some) * len(some[0])), VALUES)]
        some = tuple(islice(chain.from_iterable(some), VALUES))
    return hash(tuple(some)) if set(map(type, some)) <= NUMBERS | {str} else None


def _stride(many: Sequence[Any], most: int) -> int:
    return max(1, -(-len(many) // most))
