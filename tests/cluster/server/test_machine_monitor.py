"""The look at the machine while the server runs."""

from __future__ import annotations

import sys
import time

import pytest

from emulator import fake_nvml
from tests.cluster.server.cards import card
from whyidle.cluster.server import machine_monitor
from whyidle.cluster.server.machine_monitor import MachineMonitor


def test_it_looks_and_keeps_the_last_hour(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module((card(0),)))
    monkeypatch.setattr(machine_monitor, "EVERY_S", 0.1)
    monitor = MachineMonitor()
    monitor.start()
    until = time.monotonic() + 20
    while not monitor.strips() and time.monotonic() < until:
        time.sleep(0.05)
    monitor.close()
    assert monitor.machine is not None
    assert [strip.name for strip in monitor.strips()] == ["gpu0", "CPU"]
    assert monitor.strips()[0].minutes[-1].state == "free"
