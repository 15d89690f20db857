"""Values of a knob that are worth trying beside the one that is proposed."""

from __future__ import annotations


def around(value: int, least: int, most: int | None) -> tuple[int, ...]:
    """The value, its two neighbours, and theirs: each twice or half the last, within bounds, the
    nearest first. Where nothing limits (``most`` is None) at most twice the value: what is further
    away the prediction says nothing of."""
    top = 2 * value if most is None else max(most, value)
    bottom = min(least, value)
    found = [value]
    for times in (2, 4):
        found += [min(value * times, top), max(-(-value // times), bottom)]
    return tuple(dict.fromkeys(found))
