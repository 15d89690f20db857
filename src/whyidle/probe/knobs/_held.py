"""What an object holds, of which a change would change what its code does.

Of what a function is bound to, and of what lies around it, that is what its code names; of options
that an object has been given (``argparse.Namespace``), what its class's code names of them. Where
code hands the whole of it on, who knows what is looked at.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from ._names import names_of

OPAQUE = (type, types.ModuleType, types.CodeType)
FOREIGN = ("logging", "multiprocessing")
"""packages whose objects change by being used, and are the same in other processes"""
LIBRARIES = ("builtins", "abc", "typing", "torch")
OPTIONS = (Namespace, types.SimpleNamespace)
SPECIAL = ("__getitem__", "__len__", "__iter__", "__contains__")
"""what code asks of an object without naming it"""
ASKS = ("LOAD_ATTR", "LOAD_METHOD")


def held_by(one: Any) -> list[Any]:
    """What an object or a function holds."""
    if isinstance(one, functools.partial):
        return [one.func, one.args, one.keywords]
    if isinstance(one, types.MethodType):
        return _named(one.__self__, names_of(one))
    if isinstance(one, types.FunctionType):
        return [one.__defaults__, one.__kwdefaults__, *_around(one)]
    if isinstance(one, OPAQUE) or type(one).__module__.partition(".")[0] in FOREIGN:
        return []
    return _of_a_model(one) if _learns(one) else [value for _, value in attributes(one)]


def attributes(one: Any) -> Iterator[tuple[str, Any]]:
    """By name; of options only what its class asks of them."""
    for name, value in getattr(one, "__dict__", {}).items():
        kind: Any = type(one)
        asked = _asked_of(kind, name) if type(value) in OPTIONS else None
        if asked is None:
            yield str(name), value
        else:
            yield from ((f"{name}.{each}", vars(value).get(each)) for each in sorted(asked))


def _learns(one: Any) -> bool:
    """Whether it is a model that is trained, which somebody who loads has got hold of."""
    torch = sys.modules.get("torch")
    known = torch is not None and isinstance(one, torch.nn.Module)
    return known and any(each.requires_grad for each in one.parameters())


def _of_a_model(one: Any) -> list[Any]:
    """But for its weights, and for whether it was told to train or to evaluate."""
    left = ("training", "_modules", "_parameters")
    held = [vars(each).items() for each in one.modules()]
    return [value for each in held for name, value in each if name not in left]


def _named(one: Any, names: set[str]) -> list[Any]:
    held = getattr(one, "__dict__", {})
    return [held[name] for name in sorted(names) if name in held]


def _around(function: types.FunctionType) -> Iterator[Any]:
    """What lies in its cells: of an object whose attributes alone it asks for, those."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            one = cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
        if _plain(one) and _attributes_only(function.__code__, name):
            yield from _named(one, names_of(function, type(one)))
        else:
            yield one


def _plain(one: Any) -> bool:
    """Whether it is an object with attributes, and no kind of container."""
    special = any(name in vars(kind) for kind in type(one).__mro__ for name in SPECIAL)
    return hasattr(one, "__dict__") and not special and not isinstance(one, OPAQUE)


def _attributes_only(code: types.CodeType, name: str) -> bool:
    """Whether code, with all that lies in it, only ever asks this variable for attributes."""
    told = list(dis.get_instructions(code))
    for one, following in zip(told, [*told[1:], None], strict=True):
        if one.argval == name and one.opname.endswith("DEREF"):
            asks = following is not None and following.opname in ASKS
            if one.opname != "LOAD_DEREF" or not asks:
                return False
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return all(_attributes_only(each, name) for each in inner if name in each.co_freevars)


@functools.cache
def _asked_of(kind: Any, name: str) -> frozenset[str] | None:
    """The attributes that a class's methods ask of their own attribute; None where they hand it on,
    or its name is put together."""
    asked: set[str] = set()
    for code in _codes(kind):
        told = list(dis.get_instructions(code))
        for one, following in zip(told, [*told[1:], None], strict=True):
            if one.opname in ASKS and one.argval == name:
                if following is None or following.opname not in ASKS:
                    return None
                asked.add(following.argval)
            elif one.argval in {"getattr", "vars", "__dict__"}:
                return None
    return frozenset(asked)


def _codes(kind: type) -> Iterator[types.CodeType]:
    """All code that is written in a class and its bases, but for PyTorch's and Python's."""
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in LIBRARIES]
    for each in own:
        for value in vars(each).values():
            if code := getattr(inspect.unwrap(_function(value)), "__code__", None):
                waiting = [code]
                while waiting:
                    one = waiting.pop()
                    yield one
                    waiting += [x for x in one.co_consts if isinstance(x, types.CodeType)]


def _function(value: Any) -> Any:
    return getattr(value, "fget", None) or getattr(value, "__func__", value)
