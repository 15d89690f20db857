"""Durations on the command line: a number with a unit."""

from __future__ import annotations

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 24 * 3600.0}
FORMS = "a number with the unit s, m, h or d, such as 90s, 5m, 1.5h"


def parse_seconds(text: str) -> float | None:
    """Return a duration in seconds; None for a number without a unit.

    Raises:
        ValueError: the text is neither a number nor a number with one unit.
    """
    unit = UNITS.get(text[-1:])
    number = float(text if unit is None else text[:-1])
    return None if unit is None else number * unit
