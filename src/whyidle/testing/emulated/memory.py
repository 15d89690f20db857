"""The memory of the device. (thin: counts only)"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.testing.emulated.device import Device


class Block:
    """Some bytes, given back when nobody holds them."""

    __slots__ = ("bytes", "memory")

    def __init__(self, memory: Memory, size: int) -> None:
        self.memory, self.bytes = memory, size

    def __del__(self) -> None:
        self.memory.free(self)


class Memory:
    """Counts what is allocated."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.allocated = self.reserved = self.most_allocated = self.most_reserved = 0

    def allocate(self, size: int) -> Block:
        """Some bytes."""
        self.allocated += size
        self.most_allocated = max(self.most_allocated, self.allocated)
        self.reserved = max(self.reserved, self.allocated)
        return Block(self, size)

    def free(self, block: Block) -> None:
        """Give them back."""
        self.allocated -= block.bytes
