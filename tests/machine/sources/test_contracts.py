"""Every source keeps the contract; GPUs are stood in for."""

import json
import os
import sys
import time

import pytest
import source_contracts

from emulator import fake_nvml
from emulator import source as emulated
from whyidle import catalog
from whyidle.model.live.telemetry import Absent, Target

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


def test_the_sources_that_ship():
    assert NAMES == ["host", "nvml"]


def test_declaration(source):
    source_contracts.check_declaration(source)


def test_probe(source, target):
    source_contracts.check_absence(source, target)
    assert not isinstance(source.probe(target), Absent)


def test_readings(source, target):
    reader = source.open(target)
    readings = source_contracts.check_readings(source, reader)
    assert any(value is not None for value in readings[0].values())
    reader.close()


def test_close(source, target):
    source_contracts.check_close(source, target)
