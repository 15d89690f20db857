"""Statistics of few, skewed samples: whether a difference exceeds the spread, and the error of a
share."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.arrays import F64

RESAMPLES: Final = 4000
ERRORS: Final = 2.0
"""standard errors on either side of a slope or a count"""
_T95: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom"""


STRETCHES: Final = 8
"""parts of a recording, each of which is left out once"""


class MeanRatio(NamedTuple):
    """A ratio of means with its 95 % interval."""

    value: float
    low: float
    high: float


def ratio_of_means(before: list[float], after: list[float]) -> MeanRatio | None:
    """Return ``mean(after) / mean(before)`` with a percentile bootstrap interval on its logarithm;
    None with fewer than two samples on a side, or non-positive ones.

    The plain interval is too narrow for few samples; it is widened after T. Hesterberg ("What
    Teachers Should Know About the Bootstrap", The American Statistician 69(4), 2015): by sqrt(n /
    (n - 1)) and by Student's t over the normal quantile.
    """
    if min(len(before), len(after)) < 2 or min(*before, *after) <= 0.0:
        return None
    random = np.random.default_rng(20)
    a, b = np.asarray(before), np.asarray(after)
    centre = float(np.log(b.mean() / a.mean()))
    drawn = np.log(_bootstrap_means(b, random) / _bootstrap_means(a, random))
    low, high = np.percentile(drawn, [2.5, 97.5])
    n = min(len(a), len(b))
    t = _T95[n - 2] if n - 2 < len(_T95) else 1.96 + 2.4 / (n - 1)
    wider = float(np.sqrt(n / (n - 1)) * t / 1.96)
    return MeanRatio(
        value=float(np.exp(centre)),
        low=float(np.exp(centre + (min(low, centre) - centre) * wider)),
        high=float(np.exp(centre + (max(high, centre) - centre) * wider)),
    )


def _bootstrap_means(samples: F64, random: np.random.Generator) -> F64:
    """Means of resamples, in parts to limit memory."""
    rows = max(1, 4_000_000 // len(samples))
    parts = []
    for begin in range(0, RESAMPLES, rows):
        shape = (min(rows, RESAMPLES - begin), len(samples))
        parts.append(samples[random.integers(0, len(samples), shape)].mean(axis=1))
    return np.concatenate(parts)


def ratio_error(part: F64, whole: F64) -> float:
    """Return half of the 95 % interval of ``sum(part) / sum(whole)``, both per step, by a jackknife
    over groups of neighbouring steps, which are alike."""
    groups = min(STRETCHES, len(whole))
    if groups < 2:
        return 0.0
    begins = np.linspace(0, len(whole), groups + 1).astype(np.int64)[:-1]
    parts, wholes = np.add.reduceat(part, begins), np.add.reduceat(whole, begins)
    rest = (parts.sum() - parts) / np.maximum(wholes.sum() - wholes, 1e-9)
    error = np.sqrt((groups - 1) * rest.var())
    return float(_T95[groups - 2] * error)
