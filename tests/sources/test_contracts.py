"""Every source keeps the contract; GPUs are stood in for."""

import os
import sys

import pytest

from whyidle import catalog
from whyidle.model.telemetry import Absent, Target
from whyidle.testing import fake_nvml, source_contracts

NAMES = catalog.names("sources")
LOG = """index, name, utilization.gpu [%], temperature.gpu, power.draw [W]
0, Tesla V100, 97 %, 61, 212.10 W
0, Tesla V100, [N/A], 62, [Not Supported]
0, Tesla V100, 3 %, 60, 90.00 W
"""


@pytest.fixture
def target(tmp_path, monkeypatch):
    log = tmp_path / "smi.csv"
    log.write_text(LOG)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module([fake_nvml.training()] * 2))
    return Target(pid=os.getpid(), recording=log)


@pytest.fixture(params=NAMES)
def source(request):
    return catalog.module("sources", request.param)


def test_the_sources_that_ship():
    assert NAMES == ["host", "nvml", "replay"]


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
