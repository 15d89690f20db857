"""The state of random number generators, and generators that a dataset holds."""

from __future__ import annotations

import random
import sys
from typing import Any

AUGMENTING = ("albumentations", "imgaug", "kornia", "imgaug2")
"""packages whose transforms draw from generators of their own, and not for every sample"""
GENERATORS = ("Generator", "RandomState", "Random", "SystemRandom")
DEPTH, MOST = 5, 2_000
"""depth and number of objects to which a dataset is searched for generators"""


def find_generator(value: Any) -> str:
    """Name the random generator, or the object with one, that a dataset holds; empty if none is
    found."""
    seen: set[int] = set()
    waiting = [("dataset", value, 0)]
    while waiting and len(seen) < MOST:
        name, value, depth = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        package = kind.__module__.partition(".")[0]
        if package in AUGMENTING or (
            kind.__name__ in GENERATORS and package in ("random", "numpy", "torch")
        ):
            return f"{name} ({kind.__module__}.{kind.__name__})"
        if depth < DEPTH:
            waiting += [(f"{name}{key}", held, depth + 1) for key, held in _held_objects(value)]
    return ""


def _held_objects(holder: Any) -> list[tuple[str, Any]]:
    """The objects that an object holds, with their names; at most 50 of a container."""
    if isinstance(holder, (list, tuple)):
        return [(f"[{number}]", value) for number, value in enumerate(holder[:50])]
    if isinstance(holder, dict):
        return [(f"[{key!r}]", value) for key, value in list(holder.items())[:50]]
    if isinstance(holder, type) or type(holder).__module__ in ("builtins", "torch"):
        return []
    return [(f".{key}", value) for key, value in getattr(holder, "__dict__", {}).items()]


def read_states() -> tuple[Any, ...]:
    """Read the states of Python's, PyTorch's and NumPy's generators."""
    import torch

    numpy: Any = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else None
    return random.getstate(), torch.get_rng_state(), legacy


def are_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    """Whether two readings of the states are equal."""
    import torch

    if before[0] != after[0] or not torch.equal(before[1], after[1]):
        return False
    if before[2] is None or after[2] is None:
        return before[2] is after[2]
    return bool(before[2][2:] == after[2][2:] and (before[2][1] == after[2][1]).all())


def disturb_states() -> None:
    """Set the generators to other states."""
    import torch

    random.seed(0xD15)
    torch.default_generator.manual_seed(0xD15)
    numpy: Any = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(0xD15)


def restore_states(before: tuple[Any, ...]) -> None:
    """Restore the states of the generators."""
    import torch

    random.setstate(before[0])
    torch.set_rng_state(before[1])
    if before[2] is not None:
        sys.modules["numpy"].random.set_state(before[2])
