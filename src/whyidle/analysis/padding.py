"""How much of what batches hold is padding, and whether the step pays for it.

Two batches of one size and different padding tell what padding costs: ``T = a + b real + c
padding``, fitted over the steps whose batch was counted. Where all batches have one length, real
and padded positions are each other's complement, and only their difference can be seen,
``T = (a + c length) + (b - c) real``: a step that takes the longer, the more is real, skips its
padding, and one that does not pays for it, as far as its work depends on positions at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.model.roles import Role

F64 = NDArray[np.float64]

FEWEST = 12
"""steps with a counted batch that a fit needs"""
SPREAD = 0.05
"""least standard deviation of the padding, as share of all positions, that a fit can stand on"""
ERRORS = 2.0
"""standard errors on either side of the slope"""
OUTLIER = 3.0
"""steps further from the fit than this many (robust) standard deviations are left out: the machine
did something else"""
MULTIPLE = 8
"""lengths rounded up to such a multiple are no waste: matrix units want them (NVIDIA, "Deep
Learning Performance Guide"; ``pad_to_multiple_of`` of Hugging Face's collators)"""
SAME = 0.9
"""share of the batches that must be padded with the same number to take it for padding"""
MOSTLY = 0.5
"""share of the work on padding that must be paid for at the careful end, to say that it is paid"""
TOKENS = 4


@dataclass(frozen=True, slots=True)
class Padding:
    """What was counted in the steps in scope. Shares are of positions or of the step (0-1), both
    without what only rounds a batch's length up;
    ``cost`` is what the padding costs (careful, expected, hopeful), None where batches do not tell
    it; nothing is expected where it may be noise. ``skipped``: the step pays for real positions
    only. ``paid``: where all batches have one length, the share of the work on padding that is
    done in spite of it (careful, expected), None where steps do not tell."""

    share: float
    beyond_longest: float
    batches: int
    told_by: int
    constant: bool
    cost: tuple[float, float, float] | None
    skipped: bool
    paid: tuple[float, float] | None = None


def find_padding(facts: Facts) -> Padding | None:
    """Padding of the batches in scope; None where too little was counted."""
    rows = facts.timeline.loading.padding
    rows = rows[facts.scope.contains_times(rows["time"])]
    rows = rows[rows["total"] > 0]
    if not len(rows):
        return None
    told_by = int(rows["told_by"].min())
    rows = rows[rows["told_by"] == told_by]
    if told_by == TOKENS and not _one_value(rows):
        return None
    total = float(rows["total"].sum())
    constant = len(np.unique(rows["total"] // np.maximum(rows["rows"], 1))) == 1
    cost = paid = None
    skipped = False
    if constant:
        paid, skipped = _is_paid_for(facts, rows)
    else:
        cost = _padding_cost(facts, rows)
    kept = float(_alignment_padding(rows).sum())
    return Padding(
        share=1.0 - (float(rows["real"].sum()) + kept) / total,
        beyond_longest=1.0 - (float(rows["longest"].sum()) + kept) / total,
        batches=len(rows),
        told_by=told_by,
        constant=constant,
        cost=cost,
        skipped=skipped,
        paid=paid,
    )


def _alignment_padding(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Positions of each batch beyond its longest row that only round its length up. Of a line whose
    every next word is to be told the last one is not fed in."""
    count = np.maximum(rows["rows"], 1)
    beyond = np.maximum(rows["total"].astype(np.int64) - rows["longest"], 0)
    left = (rows["total"] // count) % MULTIPLE
    rounded = ((left == 0) | (left == MULTIPLE - 1)) & (beyond // count < MULTIPLE)
    found: NDArray[np.int64] = np.where(rounded, beyond, 0)
    return found


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
    """Whether steps over batches of one length pay for padding, see ``Padding.paid``; and whether
    they skip it."""
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
    """Share of the work on padding that steps spare, which take ``slope`` longer for each position
    that is real instead of padded: with ``work = b real + c padded`` it is ``(b - c) / b``."""
    each = (work + slope * padded) / total
    return min(max(slope / each, 0.0), 1.0) if each > 0.0 else 0.0


def _work_of(facts: Facts, rows: NDArray[np.void]) -> tuple[NDArray[np.int64], F64]:
    """For every counted batch the step that it belongs to (-1: unknown), and the work in it, ns.
    Steps of several batches, and steps that took far longer than most, are left out."""
    starts, ends = facts.steps.on_host
    step = np.searchsorted(starts, rows["time"], side="right") - 1
    inside = (step >= 0) & (rows["time"] < ends[step])
    taken = np.sort(facts.timeline.host.start[facts.rows_of(Role.BATCH_REQUEST)])
    if not len(taken):  # no loader: every backward pass is of a batch
        taken = np.sort(facts.timeline.host.start[facts.rows_of(Role.BACKWARD)])
    batches = np.searchsorted(taken, ends) - np.searchsorted(taken, starts)
    work = (
        facts.time_of("compute")
        .length_inside(facts.steps.start, facts.steps.end)
        .astype(np.float64)
    )
    usual = work[step] < 3.0 * np.median(work[step])
    known = inside & usual & (batches[step] <= 1) & facts.steps_in_scope[step]
    return np.where(known, step, -1), work[step]


def _fit_lengths(y: F64, *columns: F64) -> list[tuple[float, float]]:
    """Least squares with a constant, once more without outliers: (slope, standard error) of each
    column."""
    scales = [max(float(np.abs(column).max()), 1.0) for column in columns]
    scaled = [column / scale for column, scale in zip(columns, scales, strict=True)]
    matrix = np.stack([*scaled, np.ones(len(y))], axis=1)
    found, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
    if rank < matrix.shape[1]:
        return [(0.0, float("inf"))] * len(columns)
    rest = y - matrix @ found
    near = np.abs(rest - np.median(rest)) <= OUTLIER * 1.4826 * np.median(np.abs(rest))
    if FEWEST <= near.sum() < len(y):
        matrix, y = matrix[near], y[near]
        found, _, _, _ = np.linalg.lstsq(matrix, y, rcond=None)
        rest = y - matrix @ found
    variance = float(rest @ rest) / max(len(y) - matrix.shape[1], 1)
    errors = np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)) * variance)
    pairs = zip(found, errors, scales, strict=False)
    return [(float(slope) / scale, float(error) / scale) for slope, error, scale in pairs]
