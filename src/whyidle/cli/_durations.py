"""Lengths of time as they are typed: a number, and a unit behind it."""

from __future__ import annotations

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 24 * 3600.0}
FORMS = "a number with s, m, h or d behind it, such as 90s, 5m, 1.5h"
"""how one is written, for messages"""


def parse_seconds(text: str) -> float | None:
    """Its seconds; None where it has no unit.

    Raises:
        ValueError: it is neither a number nor a number with one unit.
    """
    unit = UNITS.get(text[-1:])
    number = float(text if unit is None else text[:-1])
    return None if unit is None else number * unit
