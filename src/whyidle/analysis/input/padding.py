"""The share of padding in batches, and whether the step pays for it. Batches of different padding
show its cost: ``T = a + b real + c padding``, fitted over the steps with a counted batch. If all
batches have one length, only the difference is visible, ``T = (a + c length) + (b - c) real``: a
step that takes longer with more real positions skips its padding, and one that does not pays for
it, as far as its work depends on positions at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.sample_statistics import ERRORS
from whyidle.model.cause import MOSTLY
from whyidle.model.roles import Role

FEWEST = 12
"""steps with a counted batch that a fit needs"""
SPREAD = 0.05
"""least standard deviation of the padding, as share of all positions, for a fit"""
OUTLIER = 3.0
"""steps further from the fit than this many robust standard deviations are left out"""
MULTIPLE = 8
"""lengths rounded up to this multiple are no waste: matrix units need them (NVIDIA, "Deep Learning
Performance Guide"; ``pad_to_multiple_of`` of Hugging Face's collators)"""
SAME = 0.9
"""share of the batches that must be padded with the same number for it to count as padding"""
TOKENS = 4
"""the last of today's methods; recordings of earlier versions have one more"""


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding counted in the steps in scope. Shares are of positions or of the step (0-1), without
    padding that only rounds a batch's length up."""

    share: float
    beyond_longest: float
    batches: int
    told_by: int
    constant: bool
    cost: tuple[float, float, float] | None
    """lower bound, expected (0 if it may be noise), upper bound; None: unknown"""
    skipped: bool
    """whether the step pays for real positions only"""
    paid: tuple[float, float] | None = None
    """work done on padding in batches of one length (lower bound, expected); None: unknown"""


def find_padding(facts: Facts) -> Padding | None:
    """Return the padding of the batches in scope; None where too little was counted."""
    rows = facts.timeline.loading.padding
    rows = rows[facts.scope.contains_times(rows["time"])]
    rows = rows[(rows["total"] > 0) & (rows["told_by"] <= TOKENS)]
    if not len(rows):
        return None
    told_by = int(rows["told_by"].min())
    rows = rows[rows["told_by"] == told_by]
    if told_by == TOKENS and not _one_value(rows):
        return None
    total = float(rows["total"].sum())
    constant = len(np.unique(rows["total"] // np.maximum(rows["rows"], 1))) == 1
    cost = None if constant else _padding_cost(facts, rows)
    paid, skipped = _is_paid_for(facts, rows) if constant else (None, False)
    alignment = float(_alignment_padding(rows).sum())
    return Padding(
        share=1.0 - (float(rows["real"].sum()) + alignment) / total,
        beyond_longest=1.0 - (float(rows["longest"].sum()) + alignment) / total,
        batches=len(rows),
        told_by=told_by,
        constant=constant,
        cost=cost,
        skipped=skipped,
        paid=paid,
    )


def _alignment_padding(rows: NDArray[np.void]) -> I64:
    """Positions of each batch that only round its longest row up, or all but one of them."""
    count = np.maximum(rows["rows"], 1)
    beyond = np.maximum(rows["total"].astype(np.int64) - rows["longest"], 0)
    remainder = (rows["total"] // count) % MULTIPLE
    rounded = ((remainder == 0) | (remainder == MULTIPLE - 1)) & (beyond // count < MULTIPLE)
    aligned: I64 = np.where(rounded, beyond, 0)
    return aligned


def _one_value(rows: NDArray[np.void]) -> bool:
    padded = rows["value"][rows["real"] < rows["total"]]
    _, counts = np.unique(padded, return_counts=True)
    return len(padded) == 0 or bool(counts.max() >= SAME * len(padded))


def _padding_cost(facts: Facts, rows: NDArray[np.void]) -> tuple[float, float, float] | None:
    step, work = _work_of(facts, rows)
    real = rows["real"][step >= 0].astype(np.float64)
    padded = (rows["total"] - rows["real"])[step >= 0].astype(np.float64)
    rounding, work = _alignment_padding(rows)[step >= 0], work[step >= 0]
    if len(work) < FEWEST or padded.std() < SPREAD * (real + padded).mean():
        return None
    length = max(facts.step_s * 1e9, 1.0)
    slope, error = _fit_lengths(work, padded, real)[0]
    mean = float((padded - rounding).mean()) / length
    low, middle, high = ((slope + sign * ERRORS * error) * mean for sign in (-1, 0, 1))
    middle = middle if low > 0.0 else 0.0  # it may as well be noise
    room = facts.bucket_share("compute")
    careful, expected, hopeful = (min(max(x, 0.0), room) for x in (low, middle, high))
    return careful, expected, hopeful


def _is_paid_for(facts: Facts, rows: NDArray[np.void]) -> tuple[tuple[float, float] | None, bool]:
    """``Padding.paid`` for batches of one length, and whether steps skip padding."""
    step, work = _work_of(facts, rows)
    real, work = rows["real"][step >= 0].astype(np.float64), work[step >= 0]
    total = float(rows["total"][step >= 0].mean()) if len(work) else 0.0
    if len(work) < FEWEST:
        return None, False
    slope, error = _fit_lengths(work, real)[0]
    if slope > ERRORS * error and slope * real.mean() > 0.5 * work.mean():
        return None, True
    if not np.isfinite(error):
        return None, False
    padded, mean = total - float(real.mean()), float(work.mean())
    careful = 1.0 - _left_out(slope + ERRORS * error, padded, total, mean)
    expected = 1.0 - _left_out(slope, padded, total, mean)
    if careful < MOSTLY:
        return None, False  # it may as well be skipped
    return (careful, expected if slope > ERRORS * error else 1.0), False


def _left_out(slope: float, padded: float, total: float, work: float) -> float:
    """Saved share of the work on padding: with ``work = b real + c padded`` it is ``(b - c) /
    b``."""
    per_real = (work + slope * padded) / total
    return min(max(slope / per_real, 0.0), 1.0) if per_real > 0.0 else 0.0


def _work_of(facts: Facts, rows: NDArray[np.void]) -> tuple[I64, F64]:
    """Step of each counted batch (-1: unknown, several, or unusually long) and its work, ns."""
    starts, ends = facts.steps.on_host
    step = np.searchsorted(starts, rows["time"], side="right") - 1
    inside = (step >= 0) & (rows["time"] < ends[step])
    requests = np.sort(facts.timeline.host.start[facts.rows_of(Role.BATCH_REQUEST)])
    batches = np.searchsorted(requests, ends) - np.searchsorted(requests, starts)
    compute = facts.time_of("compute").length_inside(facts.steps.start, facts.steps.end)
    work = compute.astype(np.float64)
    usual = work[step] < 3.0 * np.median(work[step])
    known = inside & usual & (batches[step] <= 1) & facts.steps_in_scope[step]
    return np.where(known, step, -1), work[step]


def _fit_lengths(y: F64, *columns: F64) -> list[tuple[float, float]]:
    """Least squares, repeated without outliers: (slope, standard error) per column."""
    scales = [max(float(np.abs(column).max()), 1.0) for column in columns]
    scaled = [column / scale for column, scale in zip(columns, scales, strict=True)]
    matrix = np.stack([*scaled, np.ones(len(y))], axis=1)
    solution, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
    if rank < matrix.shape[1]:
        return [(0.0, float("inf"))] * len(columns)
    rest = y - matrix @ solution
    near = np.abs(rest - np.median(rest)) <= OUTLIER * 1.4826 * np.median(np.abs(rest))
    if FEWEST <= near.sum() < len(y):
        matrix, y = matrix[near], y[near]
        solution, _, _, _ = np.linalg.lstsq(matrix, y, rcond=None)
        rest = y - matrix @ solution
    variance = float(rest @ rest) / max(len(y) - matrix.shape[1], 1)
    errors = np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)) * variance)
    pairs = zip(solution, errors, scales, strict=False)
    return [(float(slope) / scale, float(error) / scale) for slope, error, scale in pairs]
