"""Gives a recording the telemetry that a run beside it would have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from whyidle.model.telemetry import Series, Telemetry
from whyidle.model.timeline import Timeline

READS = 20


def watched(
    timeline: Timeline,
    values: Mapping[str, float | tuple[float, float]],
    *,
    facts: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Timeline:
    """A number is a gauge that holds; a pair is what a counter grows by per second of the
    recording, and the number that it begins at."""
    last = int(timeline.host.end.max()) if len(timeline.host) else 0
    length = max(last, int(timeline.device.end.max()) if len(timeline.device) else 0)
    time = np.linspace(0, length, READS).astype(np.int64)
    series = {}
    for name, value in values.items():
        rate, start = value if isinstance(value, tuple) else (0.0, value)
        series[name] = Series(
            time + timeline.base_ns, np.asarray(start + rate * time / 1e9, dtype=np.float64)
        )
    told = {**timeline.settings, **(settings or {})}
    return replace(timeline, telemetry=Telemetry(series, facts or {}), settings=told)
