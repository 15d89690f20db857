"""Matrix dimensions are not aligned for tensor cores."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._unfused_attention import find_unfused_attention
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

ALIGNED = (1.0, 1 / 1.25, 1 / 2)
"""time with aligned dimensions / present time. NVIDIA's guide shows a factor of up to two for FP16
products with dimensions that are not multiples of 8 and a modern library; often there is little"""


@cause(
    "Matrix dimensions are not aligned for tensor cores", bucket="compute", needs=("device_events",)
)
def misaligned_tensor_shapes(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Matrix products have dimensions that are not multiples of 16 bytes (8 numbers of 16 bits, 4 of
    TF32), for example a vocabulary of 50257.

    Why it costs
    ------------
    Such rows cannot be loaded in whole vectors, so the library uses slower kernel variants.

    How it is detected
    ------------------
    Tensor-core kernels have names that end in ``align1`` or ``align2`` (also for TF32, whose full
    width is ``align4``). The predicted gain is an interval that starts at zero: only a trial with
    padded shapes gives the exact value (P5, replayed against the recorded launches).

    What looks alike
    ----------------
    Unfused attention over an odd sequence length has such kernels too. Fusing it removes them, so
    they count under ``naive-attention``.

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
    rows = rows[facts.uses_tensor_cores[rows]]
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
        ),
        confidence=0.5,
    )


def _shape_evidence(facts: Facts, rows: I64) -> tuple[Evidence, ...]:
    inputs = savings.longest_input_shapes(facts, rows)
    shapes = [shape for shape in inputs if isinstance(shape, list) and len(shape) > 1]
    if not shapes:
        return ()
    text = " @ ".join("x".join(str(size) for size in shape) for shape in shapes[:2])
    name, source = "shapes of the longest product", "operator shapes"
    return (make_evidence(name, text, None, samples=len(rows), source=source),)
