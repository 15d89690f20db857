"""Matrix dimensions are not aligned for tensor cores."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.flops import shapes_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._unfused_attention import find_unfused_attention
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

GRAIN = {"bf16": 8, "fp16": 8, "tf32": 4, "fp8": 16}
"""numbers in 16 bytes"""
SLOW = 0.6
"""share of the roofline below which a large product is slow: aligned ones of some 1,000 rows and
columns reach 70 to 80 % of the dense peak (NVIDIA, Matrix Multiplication Background)"""
LARGE_NS = 100_000
"""a shorter kernel is dominated by its start and its end"""
ALIGNED = (1.0, 1 / 1.25, 1 / 2)
"""time with aligned dimensions / present time. NVIDIA's guide shows a factor of up to two for FP16
products with dimensions that are not multiples of 8 and a modern library; often there is little"""


@cause(
    "Matrix dimensions are not aligned for tensor cores", bucket="compute", needs=("device_events",)
)
def misaligned_tensor_shapes(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Matrix dimensions, such as a vocabulary of 50257, are not multiples of 16 bytes (8 FP16
    numbers).

    Why it costs
    ------------
    Unaligned rows cannot be loaded as whole vectors, so the library uses slower kernels.

    How it is detected
    ------------------
    The names of tensor-core kernels end in ``align1`` or ``align2``; or recorded shapes show an
    unaligned dimension, and the kernel takes at least 0.1 ms and reaches less than 60 % of the
    roofline. The prediction replays these kernels at 1 to 2 times their speed (P5). Its lower bound
    is zero: only a trial with padded shapes shows the real gain.

    What looks alike
    ----------------
    Such kernels in unfused attention count as ``naive-attention``, because fusing removes them.

    What to do
    ----------
    Pad the vocabulary, hidden sizes or the batch to multiples of 8 (64 on A100 and later).

    References
    ----------
    NVIDIA, Deep Learning Performance: Matrix Multiplication Background.
    """
    rows = np.intersect1d(
        savings.kernels_named(facts, r"align[12]\b|align[12]>"), savings.matrix_kernels(facts)
    )
    rows = np.union1d(rows[facts.uses_tensor_cores[rows]], _slow_by_shape(facts))
    rows = rows[~np.isin(rows, find_unfused_attention(facts).all_rows)]
    if not len(rows):
        return None
    share = savings.busy_share(facts, rows)
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, ALIGNED)),
        headline=f"{share:.0%} of the busy time is matrix products with unaligned dimensions",
        method="P5: aligned variants at 1 to 2 times the speed, replayed",
        evidence=(
            savings.share_evidence("unaligned products, share of busy time", share, rows),
            *_shape_evidence(facts, rows),
            *_roofline_evidence(facts, rows),
        ),
        confidence=0.5,
    )


def _slow_by_shape(facts: Facts) -> I64:
    """Large products with an unaligned dimension that run far below the roofline."""
    rows = savings.matrix_kernels(facts)
    rows = rows[facts.uses_tensor_cores[rows] & (facts.group[rows] == "matrix_product")]
    rows = rows[(facts.device.end - facts.device.start)[rows] >= LARGE_NS]
    if facts.peak is None or not len(rows):
        return rows[:0]
    details = pick_rows(facts.timeline.host.detail, facts.launching_op[rows], -1)
    pairs = list(zip(details.tolist(), facts.precision[rows].tolist(), strict=True))
    odd = {pair: bool(_odd_sizes(facts, *pair)) for pair in set(pairs)}
    rows = rows[np.array([odd[pair] for pair in pairs])]
    return rows[_roofline_share(facts, rows) < SLOW] if len(rows) else rows


def _roofline_share(facts: Facts, rows: I64) -> F64:
    """Time at the device's peaks / present time of each kernel; nan where its work is unknown."""
    peak = facts.peak
    if peak is None:
        return np.full(len(rows), np.nan)
    rates = [peak.peak_flops(str(kind) or None, tensor=True) for kind in facts.precision[rows]]
    flops = facts.work.flops[rows] / np.array([rate or np.nan for rate in rates])
    moved = np.nan_to_num(facts.work.bytes[rows] / peak.bandwidth)
    return np.asarray(np.maximum(flops, moved) / facts.durations_s(rows))


def _odd_sizes(facts: Facts, detail: int, precision: str) -> list[int]:
    """Dimensions of an operator that are not multiples of 16 bytes."""
    shapes = [shape[-2:] for shape in shapes_of(facts.timeline, detail) if len(shape) > 1]
    grain = GRAIN.get(precision, 1)
    return sorted({size for shape in shapes[:3] for size in shape if size > grain and size % grain})


def _roofline_evidence(facts: Facts, rows: I64) -> tuple[Evidence, ...]:
    row = int(rows[np.argmax(facts.durations_s(rows))])
    operator, precision = facts.launching_op[rows[rows == row]], str(facts.precision[row])
    detail = int(pick_rows(facts.timeline.host.detail, operator, -1)[0])
    share = float(_roofline_share(facts, rows[rows == row])[0])
    odd = _odd_sizes(facts, detail, precision)
    if np.isnan(share) or not odd:
        return ()
    grain = GRAIN[precision]
    sizes = f"{' and '.join(map(str, odd[:2]))}: no multiple of {grain}"
    return (
        make_evidence("its share of the roofline", min(share, 1.0), "ratio", source="shapes"),
        make_evidence("unaligned dimension", sizes, None, source="operator shapes"),
    )


def _shape_evidence(facts: Facts, rows: I64) -> tuple[Evidence, ...]:
    inputs = savings.longest_input_shapes(facts, rows)
    shapes = [shape for shape in inputs if isinstance(shape, list) and len(shape) > 1]
    if not shapes:
        return ()
    text = " @ ".join("x".join(str(size) for size in shape) for shape in shapes[:2])
    name, source = "shapes of the longest product", "operator shapes"
    return (make_evidence(name, text, None, samples=len(rows), source=source),)
