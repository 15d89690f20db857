"""Formats numbers in sentences: three digits and no exponent."""

from __future__ import annotations

_WHOLE = 999.5
"""from here on ``.3g`` would write an exponent"""

_WIDE = 3.0
"""ratio of an interval's ends above which its middle is no result: on a few pairs of runs that
scatter, only the low end is proven"""

_ALL = 0.995
"""from here on a share would be shown as 100 %"""

MOST_NAMED = 3
"""things of a list that a sentence names; of more it tells the number"""


def format_digits(value: float) -> str:
    """Three digits; whole numbers from 1000 on."""
    return f"{value:.3g}" if abs(value) < _WHOLE else f"{value:,.0f}"


def format_duration(seconds: float) -> str:
    """Milliseconds, or seconds from one second on."""
    value, unit = (seconds * 1e3, "ms") if abs(seconds * 1e3) < _WHOLE else (seconds, "s")
    return f"{format_digits(value)} {unit}"


def format_bytes(size: float) -> str:
    """Megabytes, or kilobytes below one."""
    value, unit = (size / 1e6, "MB") if size >= 1e6 else (size / 1e3, "kB")
    return f"{format_digits(value)} {unit}"


def format_part(share: float) -> str:
    """The part of a time that has one cause: ``all of it``, or ``75% of it``."""
    return "all of it" if share >= _ALL else f"{share:.0%} of it"


def has_only_low_end(low: float | None, high: float | None) -> bool:
    """Whether a gain with this interval is told by its low end alone."""
    return low is not None and high is not None and low > 1.0 and high > _WIDE * low
