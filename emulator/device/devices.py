"""The devices of this process, made when they are first asked for."""

from __future__ import annotations

import os
import threading

from emulator.device.config import from_environment
from emulator.device.device import Device

config = from_environment()
_made: list[Device] = []
_lock = threading.Lock()
_chosen = threading.local()
_owner: list[int] = []


def started() -> list[Device]:
    """Those that were used."""
    return _made


def heard() -> bool:
    """Whether a profiler listens."""
    return bool(_made) and _made[0].record.heard is not None


def bad_fork() -> bool:
    """Whether this process was forked from one that had used a device: then it may not."""
    return bool(_owner) and _owner[0] != os.getpid()


def device(index: int | None = None) -> Device:
    """One of them, the current one by default.

    Raises:
        RuntimeError: no such device, or a forked child.
    """
    index = current() if index is None else index
    if not 0 <= index < config.devices:
        raise RuntimeError(f"emulated device {index}: there are {config.devices}")
    if bad_fork():
        raise RuntimeError(
            "Cannot re-initialize the emulated device in forked subprocess. To use it with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    while len(_made) <= index:
        with _lock:
            _owner[:] = [os.getpid()]
            if len(_made) <= index:
                _made.append(Device(len(_made), config))
    return _made[index]


def current() -> int:
    """The index of the one that this thread has chosen."""
    return getattr(_chosen, "index", 0)


def choose(index: int) -> None:
    """Choose one for this thread."""
    _chosen.index = index
