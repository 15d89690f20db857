"""A function of somebody else's, replaced by one that also reports its calls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


_NOTHING = object()


def set_attribute(owner: Any, name: str, wrapper: Any) -> Callable[[], None]:
    """Set ``owner.name``; what is returned takes it off again. That leaves what somebody else has
    set since, or another hook of ours, with this one inside it: it finds nothing to write into or,
    having failed, only passes on (``Events.off``). What the owner holds itself is put back, not
    what ``getattr`` makes of it: a method of a C++ class would lose its object."""
    original = vars(owner).get(name, _NOTHING)
    setattr(owner, name, wrapper)

    def undo() -> None:
        if vars(owner).get(name) is not wrapper:
            return
        if original is _NOTHING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    return undo


def replace_function(owner: Any, name: str, wrap: Wrap) -> Callable[[], None]:
    """Replace ``owner.name`` by what ``wrap`` makes of it; what is returned takes it off again."""
    original = getattr(owner, name)
    wrapper = functools.wraps(original)(wrap(original))
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    owners = [owner]
    if home is not None and home is not owner and getattr(home, name, None) is original:
        owners.append(home)  # where it was defined, or it could not be pickled by its name
    undoes = [set_attribute(each, name, wrapper) for each in owners]

    def undo() -> None:
        for each in undoes:
            each()

    return undo
