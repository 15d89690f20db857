"""Lists of nodes as Slurm writes them."""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 100_000
"""of a list; a longer one is an error"""


def expand_nodes(text: str) -> list[str]:
    """The names in a list such as ``gpu[01-03,7],login1``.

    Raises:
        ValueError: it is no such list.
    """
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        stem, bracket, rest = part.partition("[")
        if not bracket:
            names.append(stem)
            continue
        for item in rest.rstrip("]").split(","):
            low, _, high = item.partition("-")
            width = len(low)
            names += [f"{stem}{n:0{width}}" for n in _span(low, high)]
    return names


def expand_numbers(text: str) -> list[int]:
    """The numbers in a list such as ``0-3,7``.

    Raises:
        ValueError: it is no such list.
    """
    spans = (part.partition("-") for part in text.split(","))
    return [n for low, _, high in spans for n in _span(low, high)]


def _span(low: str, high: str) -> range:
    found = range(int(low), int(high or low) + 1)
    if len(found) > MOST or len(low) > 9:
        raise ValueError(f"{low}-{high}")
    return found
