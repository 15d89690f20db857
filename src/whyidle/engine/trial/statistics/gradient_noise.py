"""The gradient noise scale: how much each sample of a larger batch contributes to learning.

With batches of ``b`` samples, the contribution of a sample is proportional to ``1 / (scale + b)``.
The scale is the variance of a sample's gradient over the square of the mean gradient (McCandlish et
al., An Empirical Model of Large-Batch Training, 2018), if the learning rate is scaled with the
batch. It grows during training, so a batch size that is useful early stays useful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.statistics.speedup import samples_per_step

PARTS = 8  # blocks of steps of the jackknife estimate of the standard error
ERRORS = 2.0  # half the width of the interval, standard errors


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """The scale in samples, with its interval; ``size``: samples of a step over all ranks."""

    samples: float
    low: float
    high: float
    size: float

    def sample_worth(self, times: float, samples: float | None = None) -> float:
        """Relative contribution of a sample in batches ``times`` as large."""
        scale = self.samples if samples is None else samples
        return 1.0 if math.isinf(scale) else (scale + self.size) / (scale + times * self.size)

    def describe_scale(self, times: float, speedup: float) -> str:
        """Describe the scale and its consequence, without full stop."""
        worth = self.sample_worth(times)
        return (
            f"gradient noise scale {_format_samples(self.samples)} samples "
            f"({_format_samples(self.low)} to {_format_samples(self.high)}), {self.size:.0f} per "
            f"step: in a batch {times:.3g} times as large, a sample contributes {worth:.2f} times "
            f"as much to learning, so {speedup:.2f} times the samples per second contribute "
            f"{speedup * worth:.2f} times as much"
        )


def estimate_scale(report: ProcessReport) -> NoiseScale | None:
    """Estimate the scale from an arm's report; None with too few measurements."""
    batch = samples_per_step(report)
    noise = [(a, b) for a, b in report.noise if math.isfinite(a) and math.isfinite(b)]
    if not batch or len(noise) < 2 * PARTS:
        return None
    size = batch * report.world
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
    """Square of the mean gradient over the batch variance; may be negative by chance."""
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
