"""Replaces functions of the framework or of Python with wrappers, and restores them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


_NOTHING = object()


def set_attribute(owner: Any, name: str, wrapper: Any) -> Callable[[], None]:
    """Set ``owner.name`` and return a function that restores it.

    If another wrapper was set since, it stays, with this one inside it: this one then records
    nothing or, having failed, only passes on (``Events.off``). The restored value is the owner's
    own attribute, not the result of ``getattr``: a method of a C++ class would lose its object.
    """
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
    """Replace ``owner.name`` with its wrapper and return a function that restores it."""
    original = getattr(owner, name)
    wrapper = functools.wraps(original)(wrap(original))
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    owners = [owner]
    if home is not None and home is not owner and getattr(home, name, None) is original:
        owners.append(home)  # where it is defined, so that it can be pickled by its name
    undoes = [set_attribute(holder, name, wrapper) for holder in owners]

    def undo() -> None:
        for holder in undoes:
            holder()

    return undo
