"""The caching allocator: what it keeps, joins, gives back and refuses."""

from __future__ import annotations

import gc

import pytest
import torch

from emulator import device as emulated
from emulator.device.config import Config
from emulator.device.device import Device

MIB = 1 << 20


def made(**fields: object) -> Device:
    config = Config()
    config.change(allocate_ns=0, release_ns=0, **fields)
    return Device(0, config)


def test_what_is_given_back_is_used_again():
    memory = made().memory
    first = memory.allocate(100)
    assert (memory.allocated, memory.reserved) == (512, 2 * MIB)
    del first
    assert memory.allocated == 0
    second = memory.allocate(MIB)
    assert memory.reserved == 2 * MIB
    assert memory.segments == 1
    del second


def test_a_retry_drains_the_device_and_gives_empty_segments_back():
    device = made(memory_bytes=64 * MIB)
    for size in (24 * MIB, 30 * MIB):
        device.memory.allocate(size)
    assert device.memory.reserved == 54 * MIB
    block = device.memory.allocate(40 * MIB)
    assert device.memory.reserved == 40 * MIB
    assert device.memory.stats()["num_alloc_retries"] == 1
    assert device.memory.stats()["num_device_free"] == 2
    del block


def test_tensors_live_in_it():
    gc.collect()
    before = torch.emulated.memory_allocated()
    values = torch.ones(1024, 256, device="emulated")
    assert torch.emulated.memory_allocated() - before == MIB
    view = values[1:]
    del values
    assert torch.emulated.memory_allocated() - before == MIB
    del view
    assert torch.emulated.memory_allocated() == before
    assert torch.emulated.max_memory_allocated() >= before + MIB
    assert torch.emulated.memory_reserved() >= torch.emulated.memory_allocated()


def test_a_tensor_too_large_is_refused():
    emulated.configure(memory_bytes=torch.emulated.memory_reserved() + MIB)
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(4 * MIB, device="emulated")
    torch.emulated.empty_cache()
