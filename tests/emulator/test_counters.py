"""What is shown of the device to others agrees with what truly happened."""

from __future__ import annotations

import pytest

from emulator import source
from emulator.device import publish
from emulator.device.config import Config
from emulator.device.counters import Counters
from emulator.device.device import Device
from emulator.device.record import MOST, WANTED, Record
from emulator.device.stream import COMPUTE, COPY_IN, Cost
from whyidle.model.live.telemetry import Target

MS = 1_000_000


def made(**fields: object) -> tuple[Device, Counters]:
    config = Config()
    config.change(launch_ns=0, **fields)
    device = Device(0, config)
    return device, Counters(device)


def test_looks_add_up_to_the_truth_wherever_they_fall():
    device, counters = made()
    start = device.begun + 10 * MS
    device.default.tail = start
    device.launch(Cost(COMPUTE, 10 * MS, 8 * MS, 4 * MS, 2 * MS), 0)
    device.launch(Cost(COPY_IN, 5 * MS, bytes_=1000), 0)
    device.launch(Cost(COMPUTE, 5 * MS), 0)
    half = counters.look(start + 5 * MS)
    assert half["busy_ns"] == 5 * MS
    assert half["tensor_ns"] == 2 * MS
    for at in (7, 11, 12.5, 18, 30):
        told = counters.look(start + int(at * MS))
    assert told["busy_ns"] == 15 * MS
    assert told["active_ns"] == pytest.approx(8 * MS, abs=10)
    assert told["memory_ns"] == pytest.approx(2 * MS, abs=10)
    assert told["received_bytes"] == pytest.approx(1000, abs=1)
    assert counters.look(start + 35 * MS)["clock_reasons"] == 1


def test_a_long_run_takes_no_more_memory_and_is_counted_all_the_same(monkeypatch):
    monkeypatch.delenv(WANTED, raising=False)
    device, counters = made()
    whole, count = Record(), 3 * MOST
    at = device.begun
    for _ in range(count):
        for record in (device.record, whole):
            record.ran(0, at + 10, at + 20, Cost(COMPUTE, 10, 5))
        device.record.waited(at, at + 10, "synchronize")
        at += 100
        if at % 1000 < 100:
            counters.look(at)
    told = counters.look(at)
    assert (told["busy_ns"], told["active_ns"]) == (10 * count, 5 * count)
    assert len(device.record.busy[0]) <= MOST
    assert len(device.record.blocked) <= MOST
    assert len(whole.busy[0]) == count
    monkeypatch.setenv(WANTED, "truth.json")
    assert made()[0].record.whole


def test_a_throttled_clock_is_seen_and_makes_kernels_longer():
    device, counters = made(clocks=((0.0, 1.0, 0), (0.05, 0.5, 0x40)))
    device.default.tail = device.begun + 60 * MS
    device.launch(Cost(COMPUTE, 10 * MS), 0)
    assert device.default.tail == device.begun + 80 * MS
    told = counters.look(device.begun + 70 * MS)
    assert (told["clock_sm_mhz"], told["clock_reasons"]) == (990, 0x40)


def test_the_memory_keeps_its_clock():
    device, counters = made(clocks=((0.0, 0.5, 0x40),))
    device.launch(Cost(COMPUTE, 10 * MS, 8 * MS, 2 * MS, 6 * MS), 0)
    begin = device.default.tail - 14 * MS
    counters.look(begin)
    told = counters.look(begin + 14 * MS)
    assert told["busy_ns"] == 14 * MS
    assert (told["active_ns"], told["tensor_ns"], told["memory_ns"]) == (10 * MS, 4 * MS, 6 * MS)


def test_the_source_reads_what_a_process_publishes(tmp_path, monkeypatch):
    device, _ = made()
    monkeypatch.setattr(publish.devices, "_made", [device])
    publisher = publish.Publisher(tmp_path)
    publisher.publish()
    reader = source.open(Target(environ={publish.VARIABLE: str(tmp_path)}))
    first = reader.read()
    assert "busy_ratio@gpu0" not in first
    device.default.tail = device.begun
    device.launch(Cost(COMPUTE, 10**12, 10**12), 0)
    publisher.publish()
    second = reader.read()
    assert 0 < second["busy_ratio@gpu0"] <= 1
    assert second["power_w@gpu0"] > device.config.power_idle_w
    assert reader.facts["name@gpu0"] == "emulated accelerator"
    assert second["energy_j@gpu0"] > first["energy_j@gpu0"]
