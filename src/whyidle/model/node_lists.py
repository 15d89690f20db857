"""Names of nodes: lists as Slurm writes them, and the one rule by which two names are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MOST_RANKS: Final = 100_000
"""of a list; a longer one is an error"""


def expand_nodes(text: str) -> list[str]:
    """The names in a list such as ``gpu[01-03,7],rack[1-2]n[1-2]``.

    Raises:
        ValueError: it is no such list.
    """
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        stems = [""]
        for plain, bracket in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            ends = [plain] if plain else list(_numbers_in(bracket))
            if len(stems) * len(ends) > MOST_RANKS:
                raise ValueError(part)
            stems = [stem + end for stem in stems for end in ends]
        names += stems
    return names


def short_name(node: str) -> str:
    """A node's name without its domain, which some programs print and others do not; an address
    stays whole."""
    return node if re.fullmatch(r"[0-9.]+", node) else node.partition(".")[0] or node


def short_name_sql(expression: str) -> str:
    """``short_name`` of an expression of DuckDB, which may end with a port; NULL if it is empty."""
    name = f"trim(CAST({expression} AS VARCHAR))"
    host = f"split_part({name}, ':', 1)"
    return (  # most names are plain, and regular expressions cost more than all else
        f"CASE WHEN strpos({name}, '.') + strpos({name}, ':') = 0 THEN nullif({name}, '') "
        f"WHEN regexp_full_match({host}, '[0-9.]+') THEN {host} "
        f"ELSE nullif(split_part({host}, '.', 1), '') END"
    )


def _numbers_in(bracket: str) -> Iterator[str]:
    """Numbers of a bracket such as ``01-03,7``, with their leading zeros."""
    for item in bracket.split(","):
        low, _, high = item.partition("-")
        yield from (f"{n:0{len(low)}}" for n in _span(low, high))


def expand_numbers(text: str) -> list[int]:
    """The numbers in a list such as ``0-3,7``.

    Raises:
        ValueError: it is no such list.
    """
    spans = (part.partition("-") for part in text.split(","))
    return [n for low, _, high in spans for n in _span(low, high)]


def _span(low: str, high: str) -> range:
    found = range(int(low), int(high or low) + 1)
    if len(found) > MOST_RANKS or len(low) > 9:
        raise ValueError(f"{low}-{high}")
    return found
