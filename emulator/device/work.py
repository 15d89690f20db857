"""Plain planted cost: a layer that does nothing, and takes the device's time for it."""

from __future__ import annotations

from typing import Any

import torch

from emulator.device import devices
from emulator.device.clock import now
from emulator.device.stream import COMPUTE, Cost
from emulator.device.tensor import EmulatedTensor


def spend(ms: float, device: int | None = None) -> None:
    """Enqueue this much work on the current stream of a device."""
    cost = Cost(COMPUTE, int(ms * 1e6), int(ms * 1e6))
    devices.device(device).launch(cost, now(), name="emulated_work_kernel")


class _Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, ms: float, backward_ms: float) -> torch.Tensor:
        ctx.backward_ms, ctx.index = backward_ms, values.get_device()
        spend(ms, ctx.index)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        spend(ctx.backward_ms, ctx.index)
        return grads[0], None, None


def work(
    values: torch.Tensor, ms: float, per_sample_ms: float = 0.0, backward: float = 2.0
) -> torch.Tensor:
    """The same values, once the device has been busy for ``ms + per_sample_ms * len(values)``.

    Args:
        values: a tensor on the emulated device, samples first.
        ms: milliseconds of each forward pass, whatever the batch.
        per_sample_ms: milliseconds of each sample.
        backward: how many times that the backward pass takes.

    Raises:
        TypeError: a tensor of another device.
    """
    if not isinstance(values, EmulatedTensor):
        raise TypeError(f"work is done on the emulated device, not on {values.device}")
    total = ms + per_sample_ms * (len(values) if values.dim() else 1)
    made: torch.Tensor = _Work.apply(values, total, total * backward)
    return made


class Work(torch.nn.Module):
    """``work`` as a layer."""

    def __init__(self, ms: float, per_sample_ms: float = 0.0, backward: float = 2.0) -> None:
        super().__init__()
        self.ms, self.per_sample_ms, self.backward = ms, per_sample_ms, backward

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """See ``work``."""
        return work(values, self.ms, self.per_sample_ms, self.backward)
