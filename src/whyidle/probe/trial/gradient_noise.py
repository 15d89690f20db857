"""How much gradients scatter from step to step: what tells how large a batch is worth its samples.

Of two steps in a row that differ in their samples, and hardly in their parameters, half the square
of the gradients' difference is the variance of one, and their product the square of the mean
gradient (Johnson et al., AdaScale SGD, 2020; Qiao et al., Pollux, 2021). Takes a copy of all
gradients, and an arm of its own.
"""

from __future__ import annotations

from typing import Any


class Noise:
    """The gradients of one optimizer."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.found: list[tuple[Any, Any]] = []
        """square of the difference and product of the gradients of two steps, as tensors, so that
        nothing waits for a device"""

    def stepped(self, optimizer: Any) -> None:
        """It has stepped, and its gradients are still there."""
        now = dict(_gradients(optimizer))
        same = [(self.before[number], one) for number, one in now.items() if number in self.before]
        if same:
            apart = sum((a - b).square().sum().double() for a, b in same)
            alike = sum((a * b).sum().double() for a, b in same)
            self.found.append((apart, alike))
        self.before = {number: one.clone() for number, one in now.items()}

    def told(self) -> list[tuple[float, float]]:
        """As numbers."""
        return [(float(apart), float(alike)) for apart, alike in self.found]


def _gradients(optimizer: Any) -> Any:
    import torch

    for group in optimizer.param_groups:
        for param in group["params"]:
            one = getattr(param.grad, "_local_tensor", param.grad)
            if one is not None and one.layout is torch.strided:
                yield id(param), one.detach().float()
