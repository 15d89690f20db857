"""A function of somebody else's, replaced by one that also records its calls."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .recorder import now
from .thread_stacks import outwards

if TYPE_CHECKING:
    from .events import Loop

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


_NOTHING = object()


def put(owner: Any, name: str, wrapper: Any) -> Callable[[], None]:
    """Set ``owner.name``; what is returned takes it off again. That leaves what somebody else has
    set since, or another hook of ours, with this one inside it: it finds nothing to write into or,
    having failed, only passes on (``Loop.off``). What the owner holds itself is put back, not what
    ``getattr`` makes of it: a method of a C++ class would lose its object."""
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


def patch(loop: Loop, where: str, owner: Any, name: str, wrap: Wrap) -> None:
    """Replace ``owner.name`` by what ``wrap`` makes of it, and remember how to take it off."""
    original = getattr(owner, name)
    wrapper = functools.wraps(original)(wrap(original))
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    owners = [owner]
    if home is not None and home is not owner and getattr(home, name, None) is original:
        owners.append(home)  # where it was defined, or it could not be pickled by its name
    undoes = [put(each, name, wrapper) for each in owners]
    loop.undo[where] = lambda: [undo() for undo in undoes]


def take_off(loop: Loop, where: str) -> None:
    """A hook failed. Where it cannot come off, it shall not fail in every step."""
    undo = loop.undo.pop(where, None)
    if undo is not None:
        loop.off.add(where)
        undo()


def spans(loop: Loop, role: str, label: str, kind: int, where: str | None = None) -> Wrap:
    """Record every call as a span of this name, with its place. ``where`` is what comes off after
    a fault, if it has another name."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begin = now()
            loop.contained(where or label, mark, loop, begin)
            try:
                return original(*args, **kwargs)
            finally:
                loop.contained(where or label, loop.span, role, label, kind, begin)

        return wrapper

    return wrap


def mark(loop: Loop, begin: int) -> None:
    """Note the stack of this thread as a sample, so that a rare span has its exact place."""
    if loop.sampler is not None and threading.get_ident() == loop.sampler.watched:
        stack = loop.sampler.stacks.number(outwards(sys._getframe(1)))
        loop.recorder.sample((begin, -1, threading.get_ident(), stack, 0))
