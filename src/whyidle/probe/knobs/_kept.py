"""Attributes that hold numbers which are read when somebody looks at them.

``meter.total`` is then looked up by its class: whoever asks gets the number itself, read for it,
but for the places of which the text says that what they make of it is kept so as well
(``_attributes``). Only a job's own classes are asked for that.
"""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from ..core import loaded_modules as loaded
from ..frameworks.torch.tracing import tracing_query
from ._asking import is_at
from ._later import Later, again, read

KNOWN = ("builtins", "abc", "typing", "torch.nn.modules.module")
"""modules whose classes may be inherited from: they ask for attributes by their names alone"""
SAVED = "__reduce_ex__"
WAYS = ("__getattribute__", "__setattr__", "__delattr__")


class Attribute:
    """Stands in a class for an attribute of its objects."""

    def __init__(self, name: str, places: Places) -> None:
        self.name, self.places = name, places
        self.holders: dict[int, weakref.ref[Any]] = {}

    def __get__(self, one: Any, kind: type | None = None) -> Any:
        try:
            found = one.__dict__[self.name]
        except (KeyError, AttributeError):
            raise self._missing(kind if one is None else type(one), one is None) from None
        if type(found) is not Later:
            return found
        if self.places.compiling():
            _leave()
        return again(found) if self.places.put_off(sys._getframe(1), self.name) else read(found)

    def __set__(self, one: Any, value: Any) -> None:
        one.__dict__[self.name] = value
        if type(value) is Later and id(one) not in self.holders:
            self.holders[id(one)] = weakref.ref(one, functools.partial(self._gone, id(one)))

    def __delete__(self, one: Any) -> None:
        if self.name not in one.__dict__:
            raise self._missing(type(one), False)
        del one.__dict__[self.name]

    def _gone(self, at: int, _: Any) -> None:
        self.holders.pop(at, None)

    def _missing(self, kind: type | None, of_class: bool) -> AttributeError:
        name = getattr(kind, "__name__", "")
        whose = f"type object {name!r}" if of_class else f"{name!r} object"
        return AttributeError(f"{whose} has no attribute {self.name!r}")

    def settle(self) -> None:
        """Leave the numbers themselves with the objects."""
        for holder in list(self.holders.values()):
            one = holder()
            found = None if one is None else one.__dict__.get(self.name)
            if type(found) is Later:
                one.__dict__[self.name] = read(found)


class Places:
    """Where attributes are looked at, and their numbers may be put off still."""

    def __init__(self, contained: Callable[..., Any]) -> None:
        self.compiling = tracing_query()
        self.contained = contained
        """carries something out, and gives None where that fails"""
        self.nodes: dict[CodeType, set[ast.Attribute]] = {}
        self.known: dict[tuple[CodeType, int, str], bool] = {}
        self.undo: list[Callable[[], None]] = []

    def add(self, code: CodeType, nodes: Iterable[ast.Attribute]) -> None:
        known = self.nodes.setdefault(code, set())
        if not known.issuperset(nodes):
            known.update(nodes)
            self.known.clear()

    def put_off(self, frame: FrameType, name: str) -> bool:
        nodes = self.nodes.get(frame.f_code)
        if nodes is None:
            return False
        place = frame.f_code, frame.f_lasti, name
        if place not in self.known:
            some = [node for node in nodes if node.attr == name]
            self.known[place] = bool(self.contained(_is_any, some, frame))
        return self.known[place]

    def keep(self, one: Any, name: str) -> str:
        """Have an object's attribute looked up so, or why that cannot be. Its class is usual."""
        kind = type(one)
        for each in kind.__mro__:
            if name in vars(each):
                own = isinstance(vars(each)[name], Attribute)
                return "" if own else f"{kind.__name__} has something else as its {name}"
        attribute = Attribute(name, self)
        if not any(SAVED in vars(each) for each in kind.__mro__ if each is not object):
            setattr(kind, SAVED, _saving)
            self.undo.append(functools.partial(_take_back, kind, SAVED, _saving))
        setattr(kind, name, attribute)
        self.undo += [functools.partial(_take_back, kind, name, attribute), attribute.settle]
        return ""

    def back(self) -> None:
        """As if nothing had been kept so."""
        while self.undo:
            self.undo.pop()()


def _saving(self: Any, protocol: Any) -> Any:
    """What is copied or saved of an object holds the numbers themselves, so that it is the same."""
    for name, value in list(self.__dict__.items()):
        if type(value) is Later:
            self.__dict__[name] = read(value)
    return object.__reduce_ex__(self, protocol)


def _take_back(kind: type, name: str, ours: Any) -> None:
    """What the job has put in its place since stays."""
    if vars(kind).get(name) is ours:
        delattr(kind, name)


def _leave() -> None:
    """What is compiled ends here, and goes on behind it."""
    import torch

    torch._dynamo.graph_break()


def _is_any(nodes: list[ast.Attribute], frame: FrameType) -> bool:
    return any(is_at(node, frame) for node in nodes)


def _ours(kind: type, way: str) -> bool:
    return vars(kind).get(way) is _saving


def usual(kind: type) -> bool:
    """Whether objects of a class are looked at as most are, and nothing of it is a library's."""
    if type(kind).__setattr__ is not type.__setattr__:
        return False
    if not kind.__dictoffset__ or not kind.__weakrefoffset__:
        return False
    own = [each for each in kind.__mro__ if each.__module__ not in KNOWN]
    if any(way in vars(each) for each in own for way in (*WAYS, SAVED) if not _ours(each, way)):
        return False
    files = [getattr(sys.modules.get(each.__module__), "__file__", None) for each in own]
    return bool(own) and all(path and not loaded.is_installed(path) for path in files)
