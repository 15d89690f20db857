"""Lists of nodes as Slurm writes them."""

from __future__ import annotations

import re


def expand_nodes(text: str) -> list[str]:
    """The names in a list such as ``gpu[01-03,7],login1``."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        stem, bracket, rest = part.partition("[")
        if not bracket:
            names.append(stem)
            continue
        for item in rest.rstrip("]").split(","):
            low, _, high = item.partition("-")
            width = len(low)
            names += [f"{stem}{n:0{width}}" for n in range(int(low), int(high or low) + 1)]
    return names


def expand_numbers(text: str) -> list[int]:
    """The numbers in a list such as ``0-3,7``."""
    spans = (part.partition("-") for part in text.split(","))
    return [n for low, _, high in spans for n in range(int(low), int(high or low) + 1)]
