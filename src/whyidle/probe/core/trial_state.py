"""What a trial's witness asks of a framework: losses, parameters, random numbers, the device.

Tensors are the framework's own; the witness only subtracts them, takes their ``norm()`` and turns
numbers into ``float``. Nothing here may wait for a device, but for ``TrialDevice.synchronize``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from .device_marks import DeviceClock


class TrialDevice(NamedTuple):
    """The device that an optimizer's parameters are on."""

    module: Any
    """what the framework knows of it; None on a CPU"""
    number: int | None
    clock: DeviceClock | None
    """None where nothing of it can be timed"""

    def synchronize(self) -> None:
        """Wait until it has done all that it was given."""
        several = hasattr(self.module, "current_device")
        self.module.synchronize(*((self.number,) if several and self.number is not None else ()))

    def is_capturing(self) -> bool:
        """Whether what it is given is being recorded as a graph."""
        return bool(getattr(self.module, "is_current_stream_capturing", bool)())


class TrialState(Protocol):
    """What one framework tells of a process in a trial."""

    def device_of(self, optimizer: Any) -> TrialDevice:
        """Where the parameters of an optimizer are."""

    def loss_of(self, tensors: Any) -> Any:
        """The sum of what a backward pass starts from."""

    def local(self, parameter: Any) -> Any:
        """Of what is spread over ranks, this one's part."""

    def largest(self, optimizer: Any) -> tuple[Any, Any] | None:
        """A copy of some parameters that it updates, and themselves."""

    def norm(self, optimizer: Any) -> Any:
        """That of all parameters that it updates."""

    def gradients(self, optimizer: Any) -> Iterator[tuple[int, Any]]:
        """Those that it takes, by a number of their parameter."""

    def random_state(self, index: int | None) -> bytes:
        """Of the framework's own generator, on the device of that number."""

    def device_bytes(self, index: int | None) -> int | None:
        """Bytes that tensors take on the device; None where it does not tell."""

    def device_peak(self, index: int | None) -> int | None:
        """Bytes that they took at most."""

    def device_free(self, index: int | None) -> int | None:
        """Bytes that the device still has."""

    def rank(self) -> tuple[int, int] | None:
        """Of this process, and the number of ranks; None where the framework does not know."""
