"""Tensors that a collective still works on: whoever uses one waits for it, on the device and, for
the numbers, on the host."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from emulator.device.clock import now
from emulator.device.device import LEAST_BLOCKED_NS, Device
from emulator.device.memory import Block


class Fence:
    """One collective under way on one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.done = threading.Event()
        """the numbers are there, and ``moment`` is known"""
        self.moment = 0
        """when the device has done it"""

    def known(self) -> None:
        """Block the host until the other processes' hosts have come to it too."""
        begun = now()
        self.done.wait()
        end = now()
        if end - begun > LEAST_BLOCKED_NS:
            self.device.record.waited(begun, end, "other processes")


raised: dict[Block, Fence] = {}
"""by the memory that a collective works on"""


def cross(blocks: Iterable[Block], device: Device) -> None:
    """The current stream is to use this memory."""
    for block in blocks:
        fence = raised.pop(block, None)
        if fence is not None:
            fence.known()
            with device.lock:
                device.current.wait(fence.moment)
