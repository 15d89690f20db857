"""Chains of transforms that a dataset holds.

A chain is an object like torchvision's ``Compose``, with a list ``transforms`` of callables that
its ``__call__`` applies one after the other, or a ``torch.nn.Sequential``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

DEPTH, MOST = 3, 64
"""how deep, and at how many objects, chains are looked for"""
WORDS = ("transform", "augment", "dataset")
"""in the names of attributes that may hold something with a chain"""


def find_chains(dataset: Any) -> list[Any]:
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
                waiting += [(each, depth + 1) for each in _attribute_holders(name, one)]
    return list(chains.values())


def has_order(chain: Any) -> bool:
    """Whether it is a list of several transforms, whose order could be another."""
    from torch import nn

    return not isinstance(chain, nn.Sequential) and len(chain.transforms) > 1


def _is_chain(one: Any) -> bool:
    from torch import nn

    if isinstance(one, type) or not hasattr(one, "__dict__"):
        return False
    if isinstance(one, nn.Sequential):
        return len(one) > 0
    held = vars(one).get("transforms")
    return callable(one) and type(held) in (list, tuple) and bool(held) and all(map(callable, held))


def _attribute_holders(name: str, one: Any) -> list[Any]:
    """What may hold a chain, of an attribute's value."""
    from torch.utils.data import Dataset

    if isinstance(one, (list, tuple)):
        return [each for each in one[:MOST] if isinstance(each, Dataset)]
    if isinstance(one, (type, ModuleType)) or not hasattr(one, "__dict__"):
        return []
    wanted = isinstance(one, Dataset) or any(word in name.lower() for word in WORDS)
    return [one] if wanted else []
