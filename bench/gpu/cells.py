"""Cells of the page's tables; what is unknown is a dash."""

from __future__ import annotations

from collections.abc import Mapping

NONE = "–"


def mark(value: bool | None) -> str:
    """Yes, or a no that is seen."""
    return NONE if value is None else "yes" if value else "**no**"


def factor(value: float | None) -> str:
    """How many times as fast."""
    return NONE if value is None else f"{value:.2f}x"


def interval(speedup: Mapping[str, float] | None) -> str:
    """The ends of a predicted speed-up."""
    return f"{speedup['low']:.2f} to {speedup['high']:.2f}x" if speedup else NONE
