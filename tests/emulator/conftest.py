"""The emulated device lives as long as its process: what a test changes is put back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from emulator.device import config
from emulator.device.device import Device
from emulator.device.devices import device as device_of


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    yield
    config.change(**before)


@pytest.fixture
def device() -> Iterator[Device]:
    """The first, with nothing left to do."""
    made = device_of(0)
    made.synchronize()
    yield made
    made.synchronize()
