"""Formats numbers and places for people. A missing value is an en dash, never a zero."""

from __future__ import annotations

import re
from typing import Final

from whyidle.model.diagnosis import (
    Evidence,
    Finding,
    Interval,
    Place,
    Predicted,
    ProposedFix,
    Removal,
)
from whyidle.model.fix import CONSENTS
from whyidle.model.number_text import has_only_low_end

NONE = "–"
EVALUATION: Final = "evaluation.interval_factor"
_CODES = re.compile(r"^P\d+( and P\d+)*(: |$)")


def spares_training(fix: ProposedFix) -> bool:
    """Whether a fix changes when results are known, and nothing of the training itself."""
    return any(edit.knob == EVALUATION for edit in fix.edits)


def describe_consent(fix: ProposedFix) -> str:
    """What a fix may change."""
    decides = "changes what depends on the results, not the training itself"
    return decides if spares_training(fix) else CONSENTS[fix.consent]


def format_seconds(value: float | None) -> str:
    """A duration with a fitting unit and three digits."""
    if value is None:
        return NONE
    size = abs(value)
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if size >= scale * 0.9995:
            return f"{format_digits(value / scale)} {unit}"
    return f"{value * 1e9:.0f} ns" if value else "0 s"


def format_age(seconds: float) -> str:
    """How long something lasts, in at most six characters: ``75 s``, ``12 min``, ``1.5 h``,
    ``2 d``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.0f} d"


def format_digits(value: float) -> str:
    """A number with three significant digits, with an exponent only if very large or small."""
    if value == 0 or abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.3g}"
    size = float(f"{abs(value):.3g}")
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{places}f}"


def format_percent(share: float | None) -> str:
    """A share (0-1) as percent; a small share does not become 0."""
    if share is None:
        return NONE
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


def format_interval(lost: Interval) -> str:
    """A share's interval in percent."""
    low, high = format_percent(lost.low), format_percent(lost.high)
    return high if low == high else f"{low.removesuffix('%')} to {high}"


def overlap_remark(finding: Finding) -> str:
    """A remark on the cost of a finding whose fix may also gain time beside it."""
    most = format_percent(finding.best_saving)
    more = finding.exceeds_bucket and most != format_percent(finding.lost.high)
    return f", up to {most} with related time" if more else ""


def format_speedup(predicted: Predicted | None) -> str:
    """A predicted speed-up with its interval."""
    if predicted is None:
        return NONE
    return format_measured(predicted.speedup, predicted.low, predicted.high)


def format_measured(times: float, low: float, high: float, unit: str = "×", more: str = "") -> str:
    """A gain with its interval and a remark in brackets; the interval is left out where only its
    low end is told."""
    ends = (low, low) if has_only_low_end(low, high) else (low, high)
    return f"{format_gain(times, low, high)}{unit}{format_bracketed(*ends, more)}"


def format_removal(removal: Removal) -> str:
    """What the complete absence of a cause gains, with its interval."""
    if removal.speedup is None:
        low, high = format_factor(removal.low), format_factor(removal.high)
        return f"at least {low}×, at most {high}× as fast"
    ends = format_bracketed(removal.low, removal.high)
    return f"{format_factor(removal.speedup)}× as fast{ends} at most"


def format_method(predicted: Predicted) -> str:
    """The method of a prediction, without the codes of predictors."""
    return _CODES.sub("", predicted.method)


def format_bracketed(low: float, high: float, more: str = "") -> str:
    """An interval of factors and a remark in brackets; equal ends are left out."""
    ends = [format_factor(low), format_factor(high)]
    parts = [" to ".join(ends) if ends[0] != ends[1] else "", more]
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def format_factor(value: float) -> str:
    """A factor with two decimal places; without decimals from 10 on."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def format_gain(times: float, low: float | None, high: float | None) -> str:
    """The factor of a gain as it is told: ``2.11``, or ``at least 5.60`` if its interval is wider
    than threefold."""
    if low is not None and has_only_low_end(low, high):
        return f"at least {format_factor(low)}"
    return format_factor(times)


def is_uninformative(low: float, high: float) -> bool:
    """Whether an interval is too wide to be shown."""
    return high > 100 * max(low, 0.01)


def format_place(where: Place) -> str:
    """``file.py:12 in function (rank 3)``, as far as recorded."""
    return str(where)


def format_evidence(evidence: Evidence) -> str:
    """An evidence's value with its unit."""
    value, unit = evidence.value, "" if evidence.unit == "1" else evidence.unit or ""
    if value is None:
        return NONE
    if isinstance(value, str):
        return f"{value} {unit}".strip()
    if unit in ("ratio", "share"):
        return format_percent(value)
    if unit == "s":
        return format_seconds(value)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "B/s":
        return f"{format_bytes(value)}/s"
    text = f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else format_digits(value)
    return f"{text} {unit}".strip()


def format_bytes(value: float | None) -> str:
    """Bytes in decimal units."""
    if value is None:
        return NONE
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= scale:
            return f"{format_digits(value / scale)} {unit}"
    return f"{value:.0f} B"
