"""What an object holds, of which a change would change what its code does.

Of what a function is bound to, and of what lies around it, that is what its code names; of options
that a dataset has been given (``argparse.Namespace``), what its class's code names of them. Where
code hands the whole of it on, or is not seen, all of it counts: who knows what is looked at.
"""

from __future__ import annotations

import functools
import sys
import types
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from ._bytecode import DYNAMIC, asked_of, attributes_only
from ._names import code_of, hides, read

OPAQUE = (type, types.ModuleType, types.CodeType)
FOREIGN = ("logging", "multiprocessing")
"""packages whose objects change by being used, and are the same in other processes"""
LIBRARIES = ("builtins", "abc", "typing", "torch")
OPTIONS = (Namespace, types.SimpleNamespace)
SPECIAL = ("__getitem__", "__len__", "__iter__", "__contains__")
"""of a container: what it holds is no attribute"""
ANY = ("__getattr__", "__getattribute__")


def held_by(one: Any) -> list[Any]:
    """What an object or a function holds."""
    if isinstance(one, functools.partial):
        return [one.func, one.args, one.keywords]
    if isinstance(one, types.MethodType):
        asked = _asked(one.__self__, one)
        return _all(one.__self__) if asked is None else asked
    if isinstance(one, types.FunctionType):
        return [one.__defaults__, one.__kwdefaults__, *_around(one)]
    if isinstance(one, OPAQUE) or type(one).__module__.partition(".")[0] in FOREIGN:
        return []
    return _of_a_model(one) if _learns(one) else _all(one)


def attributes(one: Any) -> Iterator[tuple[str, Any]]:
    """By name; of options only what the class asks of them."""
    for name, value in getattr(one, "__dict__", {}).items():
        kind: Any = type(one)
        asked = _of_options(kind, name) if type(value) in OPTIONS else None
        if asked is None:
            yield str(name), value
        else:
            yield from ((f"{name}.{each}", vars(value).get(each)) for each in sorted(asked))


def _all(one: Any) -> list[Any]:
    return list(getattr(one, "__dict__", {}).values())


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


def _around(function: types.FunctionType) -> Iterator[Any]:
    """What lies in its cells: of an object whose attributes alone it asks for, those."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            one = cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
        asked = None
        if _is_plain(one) and attributes_only(function.__code__, name):
            asked = _asked(one, function)
        yield from [one] if asked is None else asked


def _asked(one: Any, function: Any) -> list[Any] | None:
    """What a function names of an object; None where its code may ask for anything."""
    kind: Any = type(one)
    found = read(function, kind)
    code = code_of(function)
    methods = [*found.methods, *([code] if code and isinstance(function, types.MethodType) else [])]
    hidden = any(name in vars(each) for each in _own(kind) for name in ANY)
    if hidden or not found.whole or found.names & DYNAMIC or not all(map(_keeps, methods)):
        return None
    held = dict(getattr(one, "__dict__", {}))
    for inner in ("_modules", "_buffers"):  # where a model has what looks like attributes
        held |= held.get(inner) or {}
    return [held[name] for name in sorted(found.names) if name in held]


def _own(kind: Any) -> list[Any]:
    """A class and its bases, but for PyTorch's and Python's."""
    return [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in LIBRARIES]


def _keeps(code: types.CodeType) -> bool:
    """Whether a method keeps the object that it is bound to for itself."""
    return not code.co_argcount or attributes_only(code, code.co_varnames[0])


def _is_plain(one: Any) -> bool:
    """Whether it is an object with attributes, and no kind of container."""
    special = any(name in vars(kind) for kind in type(one).__mro__ for name in SPECIAL)
    return hasattr(one, "__dict__") and not special and not isinstance(one, OPAQUE)


@functools.cache
def _of_options(kind: Any, name: str) -> frozenset[str] | None:
    """The attributes that a class's methods ask of their own attribute; None where they may ask for
    others, or for none: then somebody else does."""
    asked: set[str] = set()
    for value in (value for each in _own(kind) for value in _written(each)):
        code = code_of(value)
        if hides(value) or code is None or not (isinstance(value, staticmethod) or _keeps(code)):
            return None
        for one in _nested(code):
            found = asked_of(one, name)
            if found is None or DYNAMIC & {*one.co_names}:
                return None
            asked |= found
    return frozenset(asked) or None


def _written(kind: type) -> Iterator[Any]:
    """What of a class is code, or may hide some."""
    for name, value in vars(kind).items():
        runs = callable(value) or hasattr(type(value), "__get__")
        if runs and name not in ("__dict__", "__weakref__"):
            yield value


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _nested(one)
