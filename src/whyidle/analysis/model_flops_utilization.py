"""How near the device's work comes to what the device can do, where shapes prove it.

``model_flops_utilization`` counts the FLOPs of a step's matrix work against the peak of the
precision that most of it ran in. It is None unless the shapes of nearly all matrix kernels are
recorded, the device is in the table of peaks, and nothing was recomputed (recomputed FLOPs are not
the model's).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.kernel_classes import MATH_GROUPS
from whyidle.model.roles import Role

I64 = NDArray[np.int64]

COVERED: Final = 0.95
"""share of matrix kernel time whose FLOPs must be known"""


def matrix_kernels(facts: Facts) -> I64:
    """Kernels in scope that belong to matrix products, convolutions and attention."""
    return facts.kernels[np.isin(facts.group[facts.kernels], list(MATH_GROUPS))]


def precision_used(facts: Facts) -> tuple[str, bool] | None:
    """The precision, and whether on tensor cores, of most matrix time; None: no matrix work, or
    names do not tell."""
    rows = matrix_kernels(facts)
    time = facts.durations_s(rows)
    total: dict[tuple[str, bool], float] = {}
    for precision in np.unique(facts.precision[rows]):
        for tensor in (False, True):
            mine = (facts.precision[rows] == precision) & (facts.uses_tensor_cores[rows] == tensor)
            total[str(precision), tensor] = float(time[mine].sum())
    if not total:
        return None
    best = max(total, key=lambda kind: total[kind])
    return best if best[0] and total[best] > 0 else None


def peak_flops(facts: Facts) -> float | None:
    """The device's dense peak for the precision used, FLOP/s; None where either is unknown."""
    used = precision_used(facts)
    if used is None or facts.peak is None:
        return None
    return facts.peak.peak_flops(used[0], tensor=used[1])


def model_flops_utilization(facts: Facts) -> float | None:
    """Model FLOPs utilisation (0-1); None where it would have to be guessed."""
    peak, rows = peak_flops(facts), matrix_kernels(facts)
    time = facts.durations_s(rows)
    if peak is None or facts.steps.found_by is None or len(facts.devices) > 1 or not time.sum():
        return None
    flops = facts.work.flops[rows]
    known = ~np.isnan(flops)
    if time[known].sum() < COVERED * time.sum() or len(facts.rows_of(Role.RECOMPUTATION)):
        return None
    ratio = float(flops[known].sum()) / (facts.scope_s * peak)
    return ratio if ratio <= 1.0 else None  # more than possible: shapes or times are not real


def flops_ratio(facts: Facts, rows: I64) -> float | None:
    """FLOP/s of some kernels of one name over the peak of their precision; None where unknown."""
    flops, seconds = facts.work.flops[rows], float(facts.durations_s(rows).sum())
    if facts.peak is None or not len(rows) or np.isnan(flops).any() or seconds <= 0:
        return None
    precision = str(facts.precision[rows[0]]) or None
    peak = facts.peak.peak_flops(precision, tensor=bool(facts.uses_tensor_cores[rows[0]]))
    return float(flops.sum()) / seconds / peak if peak else None
