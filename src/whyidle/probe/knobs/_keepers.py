"""Whether the objects that come to hold a number can hold one that is read later.

The text says which variables' attributes these are (``_attributes``), here it is looked what is in
these variables: objects of the job's own, whose classes ``_kept`` can change.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from ..core import loaded_modules as loaded
from . import _attributes
from ._asking import Asked, text_of, variable
from ._kept import Places, usual
from ._later import Later
from ._reads import Read

OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Keepers:
    """What has been found of the objects of one process."""

    def __init__(self, texts: Asked, contained: Callable[..., Any]) -> None:
        self.texts = texts
        self.places = Places(contained)
        self.methods: dict[tuple[CodeType, int | str], Read] = {}
        self.kinds: dict[tuple[type, str], str] = {}
        """why attributes of a class cannot be kept so; empty where they can"""
        self.looked_into: dict[str, bool] = {}

    def variables(self, found: Read, frame: FrameType) -> Read:
        """A number that attributes of a frame's variables come to hold."""
        if not found.kept or found.why:
            return found
        owners = {name: variable(frame, name) for name in {one.owner for one in found.kept}}
        return self._held(found, frame.f_code, owners)

    def method(self, found: Read, one: Any, name: str) -> Read:
        """A number that goes straight to a method: what becomes of it there."""
        refused = found._replace(why=f"it is given to {found.method}")
        functions = [vars(each)[name] for each in type(one).__mro__ if name in vars(each)]
        own = getattr(one, "__dict__", {})
        if not functions or type(functions[0]) is not FunctionType or found.inside or name in own:
            return refused
        code = functions[0].__code__
        key = code, found.argument
        if key not in self.methods:
            self.methods[key] = self.texts.parameter(functions[0], found.argument)
        read = self.methods[key]
        if not read.why:
            read = self._held(read, code, {each.owner: one for each in read.kept})
        return read._replace(why=f"{refused.why}: {read.why}") if read.why else read

    def _held(self, read: Read, code: CodeType, owners: dict[str, Any]) -> Read:
        for kept in read.kept:
            if why := self._why(owners[kept.owner], kept):
                return read._replace(why=why)
        self.places.add(code, read.again)
        return read

    def _why(self, one: Any, kept: _attributes.Kept) -> str:
        """Why it cannot be kept there."""
        key = type(one), kept.name
        if key not in self.kinds:
            self.kinds[key] = self._of_class(one, kept.name)
        if self.kinds[key]:
            return self.kinds[key]
        before = one.__dict__.get(kept.name)
        number = not kept.added or type(before) in (int, float, bool, Later)
        return "" if number else f"{kept.owner}.{kept.name} is no plain number so far"

    def _of_class(self, one: Any, name: str) -> str:
        kind = type(one)
        if not usual(kind):
            return f"{kind.__name__} is no plain class of the job's own"
        for path in loaded.files():
            if path not in self.looked_into:
                self.looked_into[path] = not path.startswith(OURS) and _looks_into(path)
            if self.looked_into[path]:
                return f"{os.path.basename(path)} may look into it by other ways than names"
        return self.places.keep(one, name)


def _looks_into(path: str) -> bool:
    """Whether a file looks at what objects hold other than by its name."""
    if not any(map(_attributes.WORDS.search, linecache.getlines(path))):
        return False
    text = text_of(path, {})
    return text is None or _attributes.looked_into(text)
