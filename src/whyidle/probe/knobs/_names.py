"""What the code of a method mentions, with that of its own class which it calls."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST = 64
"""pieces of code that are looked into"""
KNOWN = (types.FunctionType, types.MethodType, property, classmethod, staticmethod)


class Read(NamedTuple):
    """The names of globals and attributes in some code; those pieces of it that belong to the
    class; and whether nothing in it was left out, or is of a kind that hides its code."""

    names: set[str]
    methods: list[types.CodeType]
    whole: bool


def names_of(function: Any, kind: type | None = None) -> set[str]:
    """The names of globals and attributes in its code, in functions within it, and in what it names
    of ``kind``, the class that it is bound to unless told otherwise."""
    return read(function, kind or type(getattr(function, "__self__", None))).names


def read(function: Any, kind: type) -> Read:
    """The same, with where they stand."""
    names, methods, whole = set[str](), list[types.CodeType](), True
    seen: set[types.CodeType] = set()
    waiting = [(code_of(function), False)]
    while waiting:
        code, own = waiting.pop()
        if code is None or code in seen:
            continue
        if len(seen) >= MOST:
            return Read(names, methods, False)
        seen.add(code)
        if own:
            methods.append(code)
        waiting += [(one, False) for one in code.co_consts if isinstance(one, types.CodeType)]
        for value in (value for name in code.co_names for value in _called(kind, name)):
            waiting.append((code_of(value), not isinstance(value, staticmethod)))
            whole = whole and not hides(value)
        names |= {*code.co_names}
    return Read(names, methods, whole)


def _called(kind: type, name: str) -> Iterator[Any]:
    """What stands under a name in a class and its bases."""
    return (vars(each)[name] for each in kind.__mro__ if name in vars(each))


def hides(value: Any) -> bool:
    """Whether what a class holds may run code that is not seen: of a decorator, say."""
    if not isinstance(value, KNOWN):
        return hasattr(type(value), "__get__") or callable(value)
    inner = getattr(value, "fget", None) or getattr(value, "__func__", value)
    code = getattr(inner, "__code__", None)
    around = set(getattr(code, "co_freevars", ())) - {"__class__"}
    return code is None or bool(around) or hasattr(inner, "__wrapped__")


def code_of(function: Any) -> types.CodeType | None:
    """That of a function, a property, or a method of whatever kind."""
    for name in ("fget", "__func__", "__wrapped__"):
        function = getattr(function, name, None) or function
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None
