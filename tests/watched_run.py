"""Telemetry and facts of a watched run, added to a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import structs

from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.model.process_facts import BurstInRun, LoaderFacts
from whyidle.model.timeline import DeviceEvents, DeviceInfo, HostKind, Timeline
from whyidle.readers.probe.process_facts import read_document, read_facts

READS = 20


def add_telemetry(
    timeline: Timeline,
    values: Mapping[str, float | tuple[float, float]],
    *,
    facts: Mapping[str, str] | None = None,
    process: Mapping[str, Any] | None = None,
) -> Timeline:
    """Add telemetry: a constant gauge, or a counter as a pair (growth per second, start)."""
    last = int(timeline.host.end.max()) if len(timeline.host) else 0
    length = max(last, int(timeline.device.end.max()) if len(timeline.device) else 0)
    time = np.linspace(0, length, READS).astype(np.int64)
    series = {}
    for name, value in values.items():
        rate, start = value if isinstance(value, tuple) else (0.0, value)
        numbers = np.asarray(start + rate * time / 1e9, dtype=np.float64)
        series[name] = Series(time + timeline.base_ns, numbers)
    recording = replace(timeline, telemetry=Telemetry(series, facts or {}))
    return add_facts(recording, process or {})


def add_facts(timeline: Timeline, document: Mapping[str, Any]) -> Timeline:
    """Add process facts as in the probe's documents; with ``burst`` the recording becomes one."""
    facts = read_facts(document)
    names = document.keys() - {"burst"}
    burst = document.get("burst")
    return replace(
        timeline,
        process=structs.replace(timeline.process, **{name: getattr(facts, name) for name in names}),
        burst=timeline.burst if burst is None else read_document(BurstInRun, burst),
    )


def hide_device(timeline: Timeline, *kinds: HostKind, device: str = "cuda") -> Timeline:
    """Keep what live signals see of a recording: calls of these kinds, nothing of the device."""
    calls = timeline.host.take_rows(np.isin(timeline.host.kind, kinds))
    nothing = {name: getattr(timeline.device, name)[:0] for name in DeviceEvents.__slots__}
    return replace(
        timeline,
        host=replace(calls, corr=np.full(len(calls), -1)),
        device=DeviceEvents(**nothing),
        info=DeviceInfo(kind=device),
        source=replace(timeline.source, format="probe"),
    )


def loader_facts(*documents: Mapping[str, Any]) -> tuple[LoaderFacts, ...]:
    """Return loaders as in the probe's documents."""
    return tuple(read_document(LoaderFacts, document) for document in documents)
