"""The model computes on padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.sample_statistics import ERRORS
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, MOSTLY, Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role

LEAST_PADDING = 0.05
"""share of padding that batches of similar lengths have, too"""
UNKNOWN = (0.0, 1.0)
"""share of padded positions that the model computes on (low, expected), if batches of one length do
not show it. Batches are padded for layers that compute on every position, so all are expected"""
LENGTHS = (2, (0.0, 0.5))
"""the same where lengths reveal the padding: recurrent layers use them to skip it"""
DEPENDS = 0.5
"""low estimate: share of the work outside the optimizer that depends on the number of positions"""
SQUARED = (0.2, 0.5)
"""share of the work that grows with the square of a length, expected and high: attention is
``n / (n + 6 d)`` of a transformer's work for ``n`` positions and a width of ``d``, so 18 % for 1024
and 768; the low estimate is zero"""
UNFITTED = (0.0, 0.0, 1.0)
"""wasted share of the work on padding (low, expected, high), if only a longer run would show it"""
LEAST_BATCHES = 3
STEPS = "steps fitted against real and padded positions"
SOURCES = {1: "masks", 2: "lengths", 3: "vectors of zeros", 4: "the number that rows end in"}
CONFIDENCE = {1: 0.9, 2: 0.85, 3: 0.7, 4: 0.7}


@cause(
    "Much of each batch is padding",
    bucket="compute",
    needs=("device_time", "steady_steps", "batch_padding"),
)
def padding_waste(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Samples are padded to a fixed maximum length, or to the longest sample of the batch.

    Why it costs
    ------------
    The model computes on padding as on real positions, and the result is discarded.

    How it is detected
    ------------------
    The probe counts padded positions in some batches, from a mask, lengths, zero vectors or a
    repeated last number. At least 5 % of all positions must be padding. Rounding up to a multiple
    of 8 does not count.

    If batch lengths vary, step times are fitted as ``T = a + b real + c padding``, where ``c`` is
    the cost of padding. The expected gain is zero if ``c`` is within two standard errors of zero.

    If all batches have the same length, the cost is estimated from the share of padding in the work
    outside the optimizer, of which a fifth (upper bound: half) is assumed to grow with the square
    of the length. The lower bound counts half of it; on a GPU, or without a clear fit, it is zero.

    What looks alike
    ----------------
    A model that skips padding, for example by packed sequences, takes longer with more real
    positions and is not reported. Nor is a step whose time does not depend on padding.

    What to do
    ----------
    Pad to the longest sample of each batch, group samples of similar length, or pack sequences.

    References
    ----------
    allenai/open-instruct#1445 (padding to the maximum took 2.5 times as long);
    Lightning-AI/lit-llama#103; Hugging Face, "Padding and truncation".
    """
    padding = find_padding(facts)
    if padding is None or padding.skipped:
        return None
    if padding.share < LEAST_PADDING or padding.batches < LEAST_BATCHES:
        return None
    low, expected, high = padding.cost or _cost_by_share(facts, padding)
    if high < LEAST_SHARE:
        return None
    fitted = padding.cost is not None or padding.paid is not None
    method = "share of padding" if padding.cost is None else STEPS
    return Proof(
        headline=f"{padding.share:.0%} of each batch is padding{_describe_cost(padding)}",
        predicted=from_gains((low, expected, high), f"{method}, without the padding"),
        evidence=_padding_evidence(padding),
        confidence=CONFIDENCE[padding.told_by] if fitted else 0.5,
        where=_padding_places(facts),
        facts=DeviceFacts(beyond_longest=padding.beyond_longest / padding.share, expected=expected),
    )


def _cost_by_share(facts: Facts, padding: Padding) -> tuple[float, float, float]:
    """Share of the step that padding costs, from its share of positions alone."""
    work = facts.bucket_share("compute")
    if not padding.constant:
        low, expected, high = (part * padding.share * work for part in UNFITTED)
        return low, expected, high
    if facts.on_cpu:
        work -= facts.share_of(facts.kernel_launching.optimizer & facts.time_of("compute"))
    least, likely = padding.paid or (LENGTHS[1] if padding.told_by == LENGTHS[0] else UNKNOWN)
    squared = 1.0 - (1.0 - padding.share) ** 2
    expected, high = (part * squared + (1.0 - part) * padding.share for part in SQUARED)
    low = DEPENDS * least * padding.share * work if facts.on_cpu else 0.0
    return low, likely * expected * work, high * work


def _describe_cost(padding: Padding) -> str:
    if padding.cost is None:
        return ""
    if not padding.cost[1]:
        return ", at no measurable cost per step"
    return f" and costs {padding.cost[1]:.0%} of the step"


def _padding_evidence(padding: Padding) -> tuple[Evidence, ...]:
    beyond = padding.beyond_longest / padding.share
    listed = (
        ("padded positions", padding.share),
        ("share of padding beyond the longest sample of its batch", beyond),
    )
    source, samples = SOURCES[padding.told_by], padding.batches
    evidence = [make_evidence(*row, "ratio", samples=samples, source=source) for row in listed]
    if padding.cost is not None:
        low, middle, high = padding.cost
        evidence += [
            make_evidence("cost of padding, share of step", middle, "ratio", source="fit"),
            make_evidence("standard error of this cost", (high - low) / 4, "ratio", source="fit"),
        ]
    return tuple(evidence)


def _padding_places(facts: Facts) -> tuple[Place, ...]:
    """Where batches are padded: the user's collate function, else the dataset, else the loop."""
    loaders = facts.timeline.loading.loaders
    frames = [loader.collating for loader in loaders] + [loader.making for loader in loaders]
    for text in frames + [loader.asked for loader in loaders]:
        place = frame_place(text or "", facts.rank)
        if place is not None and not in_library(place):
            return (place,)
    return ()


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
