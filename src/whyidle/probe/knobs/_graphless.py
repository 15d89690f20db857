"""Calls of the model without a graph, and what is seen of it while it still records one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._structures import leaves


def learned_from(found: Any, learned: Callable[[], None]) -> None:
    """Have ``learned`` called when a gradient comes to what the model gave: whenever, and in
    whatever mode the model is by then."""
    for tensor in graphs(found):
        tensor.grad_fn.register_prehook(lambda _: learned())


def graphs(found: Any) -> Iterator[Any]:
    """The tensors of a result that know how they came about."""
    for one in every(found):
        if getattr(one, "grad_fn", None) is not None:
            yield one


def every(found: Any) -> Iterator[Any]:
    """What a result holds: also where it is an object of the script's, as a dataclass."""
    for _, one in leaves(found):
        yield one
        if type(one).__module__.partition(".")[0] not in ("builtins", "torch"):
            yield from (inner for _, inner in leaves(getattr(one, "__dict__", {})))
