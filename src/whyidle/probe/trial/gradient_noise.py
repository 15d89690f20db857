"""How much gradients scatter from step to step: what tells how large a batch is worth its samples.

Of two steps in a row that differ in their samples, and hardly in their parameters, half the square
of the gradients' difference is the variance of one, and their product the square of the mean
gradient (Johnson et al., AdaScale SGD, 2020; Qiao et al., Pollux, 2021). Takes a copy of all
gradients, and an arm of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class GradientNoise:
    """The gradients of one optimizer."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.found: list[tuple[Any, Any]] = []
        """square of the difference and product of the gradients of two steps, as tensors, so that
        nothing waits for a device"""

    def note_step(self, gradients: Iterable[tuple[int, Any]]) -> None:
        """A step is over, and its gradients are still there, by a number of their parameter."""
        now = dict(gradients)
        same = [(self.before[number], one) for number, one in now.items() if number in self.before]
        if same:
            apart = sum((a - b).square().sum().double() for a, b in same)
            alike = sum((a * b).sum().double() for a, b in same)
            self.found.append((apart, alike))
        self.before = {number: one.clone() for number, one in now.items()}

    def noise_terms(self) -> list[tuple[float, float]]:
        """As numbers."""
        return [(float(apart), float(alike)) for apart, alike in self.found]
