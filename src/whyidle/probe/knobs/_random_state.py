"""Random number generators: where they are, and whether something has one of its own."""

from __future__ import annotations

import random
import sys
from typing import Any

AUGMENTING = ("albumentations", "imgaug", "kornia", "imgaug2")
"""packages whose transforms draw from generators of their own, now and then only"""
GENERATORS = ("Generator", "RandomState", "Random", "SystemRandom")
DEPTH, MOST = 5, 2_000
"""how deep, and at how many objects, generators are looked for"""


def find_generator(value: Any) -> str:
    """The name of a generator, or of what has one, among the attributes of a dataset and of what it
    holds; empty where none is found."""
    seen: set[int] = set()
    waiting = [("dataset", value, 0)]
    while waiting and len(seen) < MOST:
        name, one, depth = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        kind = type(one)
        package = kind.__module__.partition(".")[0]
        if package in AUGMENTING or (
            kind.__name__ in GENERATORS and package in ("random", "numpy", "torch")
        ):
            return f"{name} ({kind.__module__}.{kind.__name__})"
        if depth < DEPTH:
            waiting += [(f"{name}{key}", each, depth + 1) for key, each in _held_objects(one)]
    return ""


def _held_objects(one: Any) -> list[tuple[str, Any]]:
    """What an object holds, of which few are looked at in long lists."""
    if isinstance(one, (list, tuple)):
        return [(f"[{number}]", each) for number, each in enumerate(one[:50])]
    if isinstance(one, dict):
        return [(f"[{key!r}]", each) for key, each in list(one.items())[:50]]
    if isinstance(one, type) or type(one).__module__ in ("builtins", "torch"):
        return []
    return [(f".{key}", each) for key, each in getattr(one, "__dict__", {}).items()]


def read_states() -> tuple[Any, ...]:
    """Where the random number generators are."""
    import torch

    numpy: Any = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else None
    return random.getstate(), torch.get_rng_state(), legacy


def are_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether nobody drew from them in between."""
    import torch

    if one[0] != other[0] or not torch.equal(one[1], other[1]):
        return False
    if one[2] is None or other[2] is None:
        return one[2] is other[2]
    return bool(one[2][2:] == other[2][2:] and (one[2][1] == other[2][1]).all())


def disturb_states() -> None:
    """Set them elsewhere."""
    import torch

    random.seed(0xD15)
    torch.default_generator.manual_seed(0xD15)
    numpy: Any = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(0xD15)


def restore_states(before: tuple[Any, ...]) -> None:
    """Set them back."""
    import torch

    random.setstate(before[0])
    torch.set_rng_state(before[1])
    if before[2] is not None:
        sys.modules["numpy"].random.set_state(before[2])
