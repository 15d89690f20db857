"""Values of a knob to try besides the proposed one."""

from __future__ import annotations


def nearby_values(value: int, least: int, most: int | None) -> tuple[int, ...]:
    """The value and its halves and doubles (twice each way) within the bounds, nearest first.
    Without an upper bound (``most`` is None) at most twice the value: the prediction does not hold
    further away."""
    top = 2 * value if most is None else max(most, value)
    bottom = min(least, value)
    values = [value]
    for times in (2, 4):
        values += [min(value * times, top), max(-(-value // times), bottom)]
    return tuple(dict.fromkeys(values))
