"""Every source keeps the contract; GPUs are stood in for."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

import pytest

from emulator import fake_nvml
from emulator import source as emulated
from whyidle import catalog
from whyidle.model.live.telemetry import (
    Available,
    Meter,
    Reading,
    Source,
    Target,
    split_key,
)

NAMES = catalog.plugin_names("sources")
SOURCES = {name: catalog.plugin_module("sources", name) for name in NAMES} | {"emulated": emulated}
SHOWN = {
    "schema": "whyidle/emulated-counters/1",
    "pid": 4711,
    "count": 2,
    "devices": [
        {
            "index": 0,
            "name": "emulated accelerator",
            "busy_ns": 5_000,
            "active_ns": 4_000,
            "tensor_ns": 0,
            "memory_ns": 100,
            "received_bytes": 1_000,
            "sent_bytes": 10,
            "memory_used_bytes": 2 << 20,
            "memory_total_bytes": 1 << 30,
            "clock_sm_mhz": 1980,
            "clock_sm_max_mhz": 1980,
            "clock_reasons": 0,
            "power_w": 300.0,
            "power_limit_w": 700.0,
            "power_limit_default_w": 700.0,
            "energy_j": 10.0,
            "link_width": 16,
            "link_width_max": 16,
        }
    ],
}


@pytest.fixture
def target(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module([fake_nvml.training()] * 2))
    shown = tmp_path / "4711.json"
    shown.write_text(json.dumps(SHOWN | {"clock_ns": time.perf_counter_ns()}))
    environ = {"WHYIDLE_EMULATED_COUNTERS": str(tmp_path)}
    return Target(pid=os.getpid(), environ=environ)


@pytest.fixture(params=SOURCES)
def source(request):
    return SOURCES[request.param]


UNITS = {"_s": "s", "_bytes": "bytes", "_ratio": "ratio", "_w": "W", "_j": "J", "_mhz": "MHz"}
"""unit by a signal's last word"""


def test_declaration(source: Source) -> None:
    """Ids are unique, end in their unit, and have a meaning and a cost or None."""
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


def test_probe(source: Source, target: Target) -> None:
    """It gives the missing signals, with reasons, and leaves no descriptor open."""
    before = _descriptors()
    availability = source.probe(target)
    assert _descriptors() == before, "probe leaves something open"
    assert isinstance(availability, Available)
    check_missing(source, availability.missing)


def check_missing(source: Source, missing: object) -> None:
    """Check that every missing signal is an offered one, with a reason."""
    assert isinstance(missing, dict)
    offered = {meter.id for meter in source.SIGNALS}
    for name, absent in missing.items():
        assert split_key(name)[0] in offered, f"{name} is missing, but never offered"
        assert absent.reason, f"{name} is missing without a reason"


def test_readings(source: Source, target: Target) -> None:
    """Keys are offered, values are numbers, counters do not fall, facts are texts."""
    meters = {meter.id: meter for meter in source.SIGNALS}
    reader = source.open(target)
    readings = [reader.read() for _ in range(3)]
    assert any(value is not None for value in readings[0].values())
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
    reader.close()


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


def test_close(source: Source, target: Target) -> None:
    """Closing frees everything and can be repeated."""
    before = _descriptors()
    reader = source.open(target)
    reader.read()
    reader.close()
    reader.close()
    assert _descriptors() == before, "close leaves something open"


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0  # noqa: PTH208  # no Path objects


def test_the_sources_that_ship():
    assert NAMES == ["host", "nvml"]
