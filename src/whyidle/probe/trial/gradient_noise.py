"""Measures how much gradients vary from step to step, from which a useful batch size follows.

Two consecutive steps differ in their samples, and hardly in their parameters. Half the square of
the difference of their gradients estimates the variance of one, and their product the square of the
mean gradient (Johnson et al., AdaScale SGD, 2020; Qiao et al., Pollux, 2021). This copies all
gradients, so it has an arm of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class GradientNoise:
    """The gradients of one optimizer."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.found: list[tuple[Any, Any]] = []
        """square of the difference, and product, of the gradients of two steps; tensors, so that
        nothing waits for a device"""

    def note_step(self, gradients: Iterable[tuple[int, Any]]) -> None:
        """Note the gradients of a step, by a number of their parameter."""
        now = dict(gradients)
        same = [
            (self.before[number], grad) for number, grad in now.items() if number in self.before
        ]
        if same:
            apart = sum((a - b).square().sum().double() for a, b in same)
            alike = sum((a * b).sum().double() for a, b in same)
            self.found.append((apart, alike))
        self.before = {number: grad.clone() for number, grad in now.items()}

    def noise_terms(self) -> list[tuple[float, float]]:
        """Return the pairs of ``found`` as numbers."""
        return [(float(apart), float(alike)) for apart, alike in self.found]
