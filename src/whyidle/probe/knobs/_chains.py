"""Chains of transforms that a dataset holds, and a tap at them.

A chain is an object like torchvision's ``Compose``, with a list ``transforms`` of callables that
its ``__call__`` applies one after the other, or a ``torch.nn.Sequential``. Whether a call really
does that and nothing else is not known here: it is proven by its results (``_prefix``).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from . import Hand

DEPTH, MOST = 3, 64
"""how deep, and at how many objects, chains are looked for"""
WORDS = ("transform", "augment", "dataset")
"""in the names of attributes that may hold something with a chain"""
Call = Callable[..., Any]
Heard = Callable[[Any, Call, tuple[Any, ...], dict[str, Any]], Any]
"""gives what a call of a chain gives: it gets the chain, its own call, and the arguments"""


def found(dataset: Any) -> list[Any]:
    """The chains of a dataset and of those that it wraps."""
    chains: dict[int, Any] = {}
    waiting = [(dataset, 0)]
    looked = 0
    while waiting and looked < MOST:
        holder, depth = waiting.pop(0)
        looked += 1
        for name, one in getattr(holder, "__dict__", {}).items():
            if _is_chain(one):
                chains[id(one)] = one
            elif depth < DEPTH:
                waiting += [(each, depth + 1) for each in _holders(name, one)]
    return list(chains.values())


def of_several(dataset: Any) -> list[Any]:
    """Those with a list of several transforms, whose order could be another."""
    from torch import nn

    return [
        one for one in found(dataset)
        if not isinstance(one, nn.Sequential) and len(one.transforms) > 1
    ]  # fmt: skip


def _is_chain(one: Any) -> bool:
    from torch import nn

    if isinstance(one, type) or not hasattr(one, "__dict__"):
        return False
    if isinstance(one, nn.Module) and "forward" in vars(one):
        return False  # somebody else stands there
    if isinstance(one, nn.Sequential):
        return len(one) > 0
    held = vars(one).get("transforms")
    return callable(one) and type(held) in (list, tuple) and bool(held) and all(map(callable, held))


def _holders(name: str, one: Any) -> list[Any]:
    """What may hold a chain, of an attribute's value."""
    from torch.utils.data import Dataset

    if isinstance(one, (list, tuple)):
        return [each for each in one[:MOST] if isinstance(each, Dataset)]
    if isinstance(one, (type, ModuleType)) or not hasattr(one, "__dict__"):
        return []
    wanted = isinstance(one, Dataset) or any(word in name.lower() for word in WORDS)
    return [one] if wanted else []


class Taps:
    """At the classes of chains: in a thread where somebody listens, calls go to him."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.kinds: set[type] = set()
        self.listening: dict[int, Heard] = {}
        """by thread"""

    def put(self, kind: type) -> None:
        """Put one at a class. Modules are of classes that models are made of, too: they get theirs
        one by one, while somebody listens."""
        from torch import nn

        if kind in self.kinds or issubclass(kind, nn.Module):
            return
        self.kinds.add(kind)

        def make(original: Call) -> Call:
            def call(body: Any, *args: Any, **kwargs: Any) -> Any:
                return self._hear(body, functools.partial(original, body), args, kwargs)

            return call

        self.hand.replace(kind, "__call__", make)

    def _hear(self, body: Any, original: Call, args: Any, kwargs: Any) -> Any:
        heard = self.listening.get(threading.get_ident())
        return original(*args, **kwargs) if heard is None else heard(body, original, args, kwargs)

    @contextmanager
    def open(self, bodies: list[Any], heard: Heard) -> Iterator[None]:
        """Have ``heard`` listen in this thread."""
        from torch import nn

        thread = threading.get_ident()
        modules = [one for one in bodies if isinstance(one, nn.Module)]
        self.listening[thread] = heard
        try:
            for one in modules:
                vars(one)["forward"] = functools.partial(self._forward, one)
            yield
        finally:
            for one in modules:
                vars(one).pop("forward", None)
            del self.listening[thread]

    def _forward(self, body: Any, *args: Any, **kwargs: Any) -> Any:
        return self._hear(body, functools.partial(type(body).forward, body), args, kwargs)


class Chains:
    """Those of one dataset, in the process that makes its samples."""

    def __init__(self, taps: Taps, dataset: Any) -> None:
        self.taps = taps
        self.dataset = dataset
        self.bodies = found(dataset)
        self.numbers = {id(body): number for number, body in enumerate(self.bodies)}
        for body in self.bodies:
            taps.put(type(body))

    def stages(self, number: int) -> list[Call]:
        """The transforms of one of them, as they are now."""
        return _stages(self.bodies[number])

    def sign(self) -> int:
        """Another number where the dataset has other chains now, or these other transforms."""
        bodies = found(self.dataset)
        return hash(tuple((id(body), *map(id, _stages(body))) for body in bodies))

    def tapped(self, heard: Heard) -> Any:
        """A context in which ``heard`` listens to their calls in this thread."""
        return self.taps.open(self.bodies, heard)


def _stages(body: Any) -> list[Call]:
    from torch import nn

    return list(body) if isinstance(body, nn.Sequential) else list(body.transforms)
