"""Measured quantities in the form of the diagnosis."""

from __future__ import annotations

from whyidle.model.diagnosis import Evidence


def make_evidence(
    quantity: str,
    value: float | str,
    unit: str | None,
    *,
    samples: int | None = None,
    source: str = "attribution",
    window: str = "steps in scope",
) -> Evidence:
    """Return one quantity over a window; ``unit`` is SI, "bytes", "ratio" (0-1) or None."""
    return Evidence(
        quantity=quantity,
        value=value if isinstance(value, str) else float(value),
        unit=unit,
        window=window,
        samples=None if samples is None else int(samples),
        source=source,
    )
