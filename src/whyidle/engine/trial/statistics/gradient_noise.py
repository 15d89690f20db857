"""The gradient noise scale: how much the samples of a larger batch still teach.

With batches of ``b`` samples a sample teaches in proportion to ``1 / (scale + b)``, where the scale
is the variance of the gradient of one sample over the square of the mean gradient (McCandlish et
al., An Empirical Model of Large-Batch Training, 2018), if the learning rate goes with the batch. It
is small at the beginning of training and grows, so that what it allows at first it allows later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.statistics.speedup import samples_per_step

PARTS = 8
"""stretches of steps, each of which is left out once, to know how far the scale is off"""
ERRORS = 2.0
"""standard errors, either side"""


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """In samples of all ranks, with its interval; ``size`` is what they have in a step."""

    samples: float
    low: float
    high: float
    size: float

    def sample_worth(self, times: float, samples: float | None = None) -> float:
        """What a sample teaches in batches so many times as large, relative to now; of another
        scale, if one is given."""
        scale = self.samples if samples is None else samples
        return 1.0 if math.isinf(scale) else (scale + self.size) / (scale + times * self.size)

    def describe_scale(self, times: float, speedup: float) -> str:
        """For people, without a full stop."""
        worth = self.sample_worth(times)
        return (
            f"gradient noise scale {_format_samples(self.samples)} samples "
            f"({_format_samples(self.low)} to "
            f"{_format_samples(self.high)}) with {self.size:.0f} a step: with {times:.3g} times "
            "as many a "
            f"sample teaches {worth:.2f} times as much as now, so {speedup:.2f} times the samples "
            f"in a second teach {speedup * worth:.2f} times as much"
        )


def estimate_scale(told: ProcessReport) -> NoiseScale | None:
    """From what an arm told of its gradients; None where that is too little."""
    each = samples_per_step(told)
    noise = [(a, b) for a, b in told.noise if math.isfinite(a) and math.isfinite(b)]
    if not each or len(noise) < 2 * PARTS:
        return None
    size = each * told.world
    rest = [
        _signal_to_noise(
            [pair for place, pair in enumerate(noise) if place * PARTS // len(noise) != part]
        )
        for part in range(PARTS)
    ]
    whole = _signal_to_noise(noise)
    mean = sum(rest) / PARTS
    error = math.sqrt((PARTS - 1) / PARTS * sum((one - mean) ** 2 for one in rest))
    low, high = _invert_bound(whole - ERRORS * error), _invert_bound(whole + ERRORS * error)
    return NoiseScale(size * _invert_bound(whole), size * high, size * low, size)


def _signal_to_noise(noise: Sequence[tuple[float, float]]) -> float:
    """The square of the mean gradient over the variance of a batch's: may be negative by chance."""
    alike = sum(b for _, b in noise)
    apart = sum(a for a, _ in noise)
    return 2.0 * alike / apart if apart else math.inf


def _invert_bound(inverse: float) -> float:
    return 1.0 / inverse if inverse > 0 else math.inf


def _format_samples(samples: float) -> str:
    return (
        "any number of"
        if math.isinf(samples)
        else f"{samples:.2g}"
        if samples < 99.5
        else f"{samples:.0f}"
    )
