"""Numbers as people read them."""

from __future__ import annotations


def percent(value: float | None, digits: int = 0) -> str:
    """A share as people read it; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def signed(value: float | None) -> str:
    """The same with its sign."""
    return "–" if value is None else f"{100 * value:+.1f} %"


def fine(value: float | None) -> str:
    """A share with a digit more, where a few percent matter."""
    return percent(value, 1)
