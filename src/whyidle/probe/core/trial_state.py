"""What a trial's witness reads from a framework: losses, parameters, random numbers, the device.

Tensors are the framework's own; the witness only subtracts them, takes their ``norm()`` and
converts numbers to ``float``. Only ``TrialDevice.synchronize`` may wait for a device.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .device_timestamps import DeviceClock

MOST_ELEMENTS = 1 << 16
"""of a parameter that is copied, to see how far it moves"""
NOISE_UNITS = 64
"""largest noise in units in the last place: rounding errors of a sum of n terms grow like the root
of n, and layers sum thousands of terms"""


class Snapshot:
    """A copy of an array on the host, for frameworks other than PyTorch."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __sub__(self, other: Snapshot) -> Snapshot:
        return Snapshot(self.values - other.values)

    def norm(self) -> float:
        """Return the Euclidean norm."""
        return float((self.values.astype("float64") ** 2).sum() ** 0.5)


class TrialDevice(NamedTuple):
    """The device of an optimizer's parameters."""

    module: Any
    """the framework's module for it, such as ``torch.cuda``; None on a CPU"""
    number: int | None
    clock: DeviceClock | None
    """None if the device has no events that can be timed"""

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""
        several = hasattr(self.module, "current_device")
        self.module.synchronize(*((self.number,) if several and self.number is not None else ()))

    def is_capturing(self) -> bool:
        """Whether work is being captured as a graph."""
        return bool(getattr(self.module, "is_current_stream_capturing", bool)())


class TrialState(Protocol):
    """What one framework reports of a process in a trial."""

    def device_of(self, optimizer: Any) -> TrialDevice:
        """Return the device of an optimizer's parameters."""

    def loss_of(self, tensors: Any) -> Any:
        """Return the sum of the tensors that a backward pass starts from."""

    def local(self, parameter: Any) -> Any:
        """Return this rank's part of a parameter that is sharded."""

    def largest(self, optimizer: Any) -> tuple[Any, Any] | None:
        """Return a copy of some of the optimizer's parameters, and these parameters."""

    def norm(self, optimizer: Any) -> Any:
        """Return the norm of all of the optimizer's parameters."""

    def random_state(self, index: int | None) -> bytes:
        """Return the state of the framework's random generator on a device."""

    def device_bytes(self, index: int | None) -> int | None:
        """Return the bytes that tensors take on a device; None if unknown."""

    def device_peak(self, index: int | None) -> int | None:
        """Return the most bytes that tensors have taken on a device; None if unknown."""

    def device_free(self, index: int | None) -> int | None:
        """Return the free bytes of a device; None if unknown."""

    def rank(self) -> tuple[int, int] | None:
        """Return rank and number of ranks; None if the framework does not know."""
