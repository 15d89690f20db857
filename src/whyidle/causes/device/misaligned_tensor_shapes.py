"""Matrix dimensions that do not fit the tensor cores."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.flops import shapes_of
from whyidle.causes.device import _kernel_savings
from whyidle.causes.device._unfused_attention import written_out
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

ALIGNED = (1.0, 1 / 1.25, 1 / 2)
"""time with aligned dimensions per time now. NVIDIA's guide shows up to twofold for FP16 products
with dimensions that are no multiples of 8 and a modern library; often there is little"""


@cause(
    "Matrix dimensions are not aligned for tensor cores", bucket="compute", needs=("device_events",)
)
def misaligned_tensor_shapes(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Matrix products have dimensions that are not multiples of 16 bytes (8 numbers of 16 bits, 4 of
    TF32), a vocabulary of 50257 for example.

    Why it costs
    ------------
    Such rows cannot be loaded in whole vectors, and the library falls back to slower variants of
    its kernels.

    How it is detected
    ------------------
    Tensor-core kernels whose names end in ``align1`` or ``align2`` (for TF32 too, whose full width
    is ``align4``). The gain is an interval that begins at none: only a trial with padded shapes
    tells (P5, replayed against the recorded launches).

    What looks alike
    ----------------
    Written-out attention over an odd sequence length has such kernels too; fusing it removes them,
    so it is left to ``naive-attention``.

    What to do
    ----------
    Pad the vocabulary, hidden sizes or the batch to multiples of 8 (64 on A100 and later).

    References
    ----------
    NVIDIA, Deep Learning Performance: Matrix Multiplication Background.
    """
    rows = np.intersect1d(
        _kernel_savings.kernels_named(facts, r"align[12]\b|align[12]>"),
        _kernel_savings.matrix_kernels(facts),
    )
    rows = rows[facts.uses_tensor_cores[rows]]
    rows = rows[~np.isin(rows, written_out(facts).all_rows)]
    if not len(rows):
        return None
    share = _kernel_savings.busy_share(facts, rows)
    factors = _kernel_savings.unit_factors(facts)
    _kernel_savings.scale_times(factors, rows, ALIGNED)
    return _kernel_savings.make_proof(
        facts,
        rows,
        factors,
        headline=f"{share:.0%} of the busy time is matrix products of unaligned shapes",
        method="P5: aligned variants at 1 to 2 times the speed, replayed",
        evidence=(
            _kernel_savings.share_evidence("unaligned products, share of busy time", share, rows),
            *_shape_evidence(facts, rows),
        ),
        confidence=0.5,
    )


def _shape_evidence(facts: Facts, rows: _kernel_savings.I64) -> tuple[Evidence, ...]:
    longest = rows[np.argmax(facts.durations_s(rows))]
    operator = int(facts.launching_op[longest])
    shapes = (
        shapes_of(facts.timeline, int(facts.timeline.host.detail[operator]))
        if operator >= 0
        else []
    )
    told = [shape for shape in shapes if isinstance(shape, list) and len(shape) > 1]
    if not told:
        return ()
    return (
        Evidence(
            quantity="shapes of the longest",
            value=" @ ".join("x".join(str(n) for n in shape) for shape in told[:2]),
            unit=None,
            window="steps in scope",
            samples=len(rows),
            source="operator shapes",
        ),
    )
