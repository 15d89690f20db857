"""Numbers within sentences that causes make: three digits, and never an exponent."""

from __future__ import annotations

_WHOLE = 999.5
"""from here on three digits would be written with an exponent"""


def format_digits(value: float) -> str:
    """Three digits; whole numbers where these are no more."""
    return f"{value:.3g}" if abs(value) < _WHOLE else f"{value:,.0f}"


def format_duration(seconds: float) -> str:
    """Milliseconds, or seconds where there are many of them."""
    thousandths = seconds * 1e3
    return (
        f"{format_digits(thousandths)} ms"
        if abs(thousandths) < _WHOLE
        else f"{format_digits(seconds)} s"
    )
