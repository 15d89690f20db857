"""Finds chains of transforms in a dataset.

A chain is an object like torchvision's ``Compose``, with a list ``transforms`` of callables that
its ``__call__`` applies one after the other, or a ``torch.nn.Sequential``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

DEPTH, MOST = 3, 64
"""depth and number of objects to which a dataset is searched"""
WORDS = ("transform", "augment", "dataset")
"""words in the names of attributes whose value may hold a chain"""


def find_chains(dataset: Any) -> list[Any]:
    """Return the chains of a dataset and of the datasets that it wraps."""
    chains: dict[int, Any] = {}
    waiting = [(dataset, 0)]
    looked = 0
    while waiting and looked < MOST:
        holder, depth = waiting.pop(0)
        looked += 1
        for name, value in getattr(holder, "__dict__", {}).items():
            if _is_chain(value):
                chains[id(value)] = value
            elif depth < DEPTH:
                waiting += [(entry, depth + 1) for entry in _attribute_holders(name, value)]
    return list(chains.values())


def _is_chain(value: Any) -> bool:
    from torch import nn

    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return False
    if isinstance(value, nn.Sequential):
        return len(value) > 0
    held = vars(value).get("transforms")
    return (
        callable(value) and type(held) in (list, tuple) and bool(held) and all(map(callable, held))
    )


def _attribute_holders(name: str, value: Any) -> list[Any]:
    """The objects of an attribute's value that may hold a chain."""
    from torch.utils.data import Dataset

    if isinstance(value, (list, tuple)):
        return [entry for entry in value[:MOST] if isinstance(entry, Dataset)]
    if isinstance(value, (type, ModuleType)) or not hasattr(value, "__dict__"):
        return []
    wanted = isinstance(value, Dataset) or any(word in name.lower() for word in WORDS)
    return [value] if wanted else []
