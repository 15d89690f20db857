"""``torch.emulated``: what PyTorch and jobs ask of a device's module."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from emulator.device import devices
from emulator.device.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    index_of,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


KERNELS_IN_PROFILES = True
"""see ``profile``"""


def is_available() -> bool:
    """It always is."""
    return True


def is_initialized() -> bool:
    """Whether it was used."""
    return bool(devices.started())


def init() -> None:
    """Begin to use it."""
    devices.device()


_lazy_init = init
_is_in_bad_fork = devices.bad_fork


def device_count() -> int:
    """How many there are."""
    return devices.config.devices


def current_device() -> int:
    """The index of the chosen one."""
    return devices.current()


def set_device(device: Any) -> None:
    """Choose one for this thread."""
    devices.choose(devices.device(index_of(device)).index)


@contextmanager
def device(chosen: Any) -> Iterator[None]:
    """Choose one for a while."""
    before = devices.current()
    set_device(chosen)
    try:
        yield
    finally:
        devices.choose(before)


def synchronize(device: Any = None) -> None:
    """Block the host until the device has done all it was given."""
    devices.device(index_of(device)).synchronize()


def get_device_name(device: Any = None) -> str:
    """Its name, which says what it is."""
    index_of(device)
    return devices.config.name


def get_device_properties(device: Any = None) -> Any:
    """Its name and memory."""
    kind = type("Properties", (), {})
    made: Any = kind()
    made.name, made.total_memory = get_device_name(device), devices.config.memory_bytes
    made.major, made.minor, made.multi_processor_count = 0, 0, 1
    return made


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Precisions that autocast may lower to."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """It is."""
    return bool(including_emulation) or True


def manual_seed(seed: int) -> None:
    """Random numbers are the host's: its seed is what counts."""


def manual_seed_all(seed: int) -> None:
    """See ``manual_seed``."""


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The host's."""
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """The host's."""
    torch.set_rng_state(new_state)


def memory_allocated(device: Any = None) -> int:
    """Bytes of living tensors."""
    return devices.device(index_of(device)).memory.allocated


def max_memory_allocated(device: Any = None) -> int:
    """The most that it was."""
    return devices.device(index_of(device)).memory.most_allocated


def memory_reserved(device: Any = None) -> int:
    """Bytes got from the device."""
    return devices.device(index_of(device)).memory.reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most that it was."""
    return devices.device(index_of(device)).memory.most_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget the most."""
    memory = devices.device(index_of(device)).memory
    memory.most_allocated, memory.most_reserved = memory.allocated, memory.reserved


def memory_stats(device: Any = None) -> dict[str, int]:
    """As ``torch.cuda.memory_stats`` names them, the main ones."""
    return devices.device(index_of(device)).memory.stats()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes free, and in all."""
    total = devices.config.memory_bytes
    return total - devices.device(index_of(device)).memory.reserved, total


def empty_cache() -> None:
    """Give the cached memory back to the device, which has to be drained for that."""
    for each in devices.started():
        each.memory.release("empty_cache")


def clock_rate(device: Any = None) -> int:
    """MHz, now."""
    each = devices.device(index_of(device))
    factor, _ = each.config.clock(time.perf_counter_ns() - each.begun)
    return int(each.config.clock_mhz * factor)
