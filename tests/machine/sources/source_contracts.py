"""Promises of every source of telemetry."""

from __future__ import annotations

import math
import os
from pathlib import Path

from whyidle.model.live.telemetry import (
    Absent,
    Available,
    Meter,
    Reader,
    Reading,
    Source,
    Target,
    split_key,
)

UNITS = {"_s": "s", "_bytes": "bytes", "_ratio": "ratio", "_w": "W", "_j": "J", "_mhz": "MHz"}
"""unit by a signal's last word"""


def check_declaration(source: Source) -> None:
    """Check that ids are unique, end in their unit, and have a meaning and a cost or None."""
    ids = [meter.id for meter in source.SIGNALS]
    assert ids, "a source without signals"
    assert len(set(ids)) == len(ids), "an id is declared twice"
    assert source.PERIOD_S > 0
    for meter in source.SIGNALS:
        _check_meter(meter)


def _check_meter(meter: Meter) -> None:
    assert meter.meaning, f"{meter.id} has no meaning"
    assert meter.id.replace("_", "").isalnum(), f"{meter.id} cannot be a key"
    assert meter.cost_us is None or 0 < meter.cost_us < 1e5, f"{meter.id} costs {meter.cost_us} us"
    for ending, unit in UNITS.items():
        if meter.id.endswith(ending) and not meter.id.endswith("_per_s"):
            assert meter.unit == unit, f"{meter.id} is said to be in {meter.unit}"


def check_absence(source: Source, target: Target) -> None:
    """Check that ``probe`` gives reasons, or the missing signals, and leaves no descriptor open."""
    before = _descriptors()
    availability = source.probe(target)
    assert _descriptors() == before, "probe leaves something open"
    if isinstance(availability, Absent):
        assert availability.reason, "absent without a reason"
        return
    assert isinstance(availability, Available)
    check_missing(source, availability.missing)


def check_missing(source: Source, missing: object) -> None:
    """Check that every missing signal is an offered one, with a reason."""
    assert isinstance(missing, dict)
    offered = {meter.id for meter in source.SIGNALS}
    for name, absent in missing.items():
        assert split_key(name)[0] in offered, f"{name} is missing, but never offered"
        assert absent.reason, f"{name} is missing without a reason"


def check_readings(source: Source, reader: Reader, reads: int = 3) -> list[Reading]:
    """Check that keys are offered, values are numbers, counters do not fall, facts are texts."""
    meters = {meter.id: meter for meter in source.SIGNALS}
    readings = [reader.read() for _ in range(reads)]
    last: Reading = {}
    for reading in readings:
        for name, value in reading.items():
            _check_value(name, value)
            meter = meters[split_key(name)[0]]
            _check_subject(meter, split_key(name)[1])
            before = last.get(name)
            if meter.kind == "counter" and value is not None and before is not None:
                assert value >= before, f"{name} fell from {before} to {value}"
            last[name] = value if value is not None else before
    check_missing(source, dict(reader.missing))
    assert all(isinstance(fact, str) for fact in reader.facts.values())
    return readings


def _check_value(name: str, value: object) -> None:
    if value is None:
        return
    assert isinstance(value, int | float), f"{name} is {value!r}"
    assert not isinstance(value, bool), f"{name} is a truth value"
    assert math.isfinite(value), f"{name} is {value}"
    assert 0 <= value < 1 << 62, f"{name} is {value}, a sentinel"
    if split_key(name)[0].endswith("_ratio"):
        assert value <= 1, f"{name} is {value}, more than all"


def _check_subject(meter: Meter, subject: str) -> None:
    of_gpu, of_process = subject.startswith("gpu"), "pid" in subject
    expected = {
        (False, False): "machine",
        (False, True): "process",
        (True, False): "gpu",
        (True, True): "gpu process",
    }[of_gpu, of_process]
    assert expected == meter.subject, f"{meter.id} of {subject or 'the machine'}"


def check_close(source: Source, target: Target) -> None:
    """Check that closing frees everything, can be repeated, and that later reads do not raise."""
    before = _descriptors()
    reader = source.open(target)
    reader.read()
    reader.close()
    reader.close()
    assert _descriptors() == before, "close leaves something open"


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0  # noqa: PTH208  # no Path objects
