"""Model FLOPs utilisation: a step's matrix FLOPs over the peak of the precision of most of them. It
is None unless the shapes of nearly all matrix kernels are recorded, the device is in the table of
peaks, and nothing was recomputed, as recomputed FLOPs are not the model's."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.device.kernel_classes import MATH_GROUPS
from whyidle.analysis.facts import Facts
from whyidle.model.roles import Role

COVERED: Final = 0.95
"""share of matrix kernel time whose FLOPs must be known"""


def matrix_kernels(facts: Facts) -> I64:
    """Return kernels in scope of matrix products, convolutions and attention."""
    return facts.kernels[np.isin(facts.group[facts.kernels], list(MATH_GROUPS))]


def precision_used(facts: Facts) -> tuple[str, bool] | None:
    """Return the precision of most matrix time, and whether on tensor cores, if known."""
    rows = matrix_kernels(facts)
    time = facts.durations_s(rows)
    total: dict[tuple[str, bool], float] = {}
    for precision in np.unique(facts.precision[rows]):
        for tensor in (False, True):
            selected = (facts.precision[rows] == precision) & (
                facts.uses_tensor_cores[rows] == tensor
            )
            total[str(precision), tensor] = float(time[selected].sum())
    if not total:
        return None
    best = max(total, key=lambda kind: total[kind])
    return best if best[0] and total[best] > 0 else None


def peak_flops(facts: Facts) -> float | None:
    """Return the device's dense peak for the precision used, FLOP/s; None where unknown."""
    used = precision_used(facts)
    if used is None or facts.peak is None:
        return None
    return facts.peak.peak_flops(used[0], tensor=used[1])


def model_flops_utilization(facts: Facts) -> float | None:
    """Return the model FLOPs utilisation (0-1); None where it would be a guess."""
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
    """Return FLOP/s of kernels of one name over their precision's peak; None where unknown."""
    flops, seconds = facts.work.flops[rows], float(facts.durations_s(rows).sum())
    if facts.peak is None or not len(rows) or np.isnan(flops).any() or seconds <= 0:
        return None
    precision = str(facts.precision[rows[0]]) or None
    peak = facts.peak.peak_flops(precision, tensor=bool(facts.uses_tensor_cores[rows[0]]))
    return float(flops.sum()) / seconds / peak if peak else None
