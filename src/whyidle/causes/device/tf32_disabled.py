"""FP32 matrix products run on vector units because TF32 is off."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._kernel_savings import Factors
from whyidle.causes.device._lower_precision import lower_precision_factors
from whyidle.model.cause import Proof, cause

LIKELY, HOPED = 0.45, 0.75
"""expected and highest share of the ratio of peaks that products reach without recorded shapes"""
CAREFUL = 1.5
LEAST_RATIO = 1.3
"""ratio of peaks (GeForce cards of the 30 and 40 series) below which TF32 is not reported"""


@cause("TF32 is off for matrix products", bucket="compute", needs=("device_events", "gpu_model"))
def tf32_disabled(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    FP32 matrix products run on vector units. PyTorch disables TF32 for them by default since 1.12
    (``torch.get_float32_matmul_precision() == "highest"``).

    Why it costs
    ------------
    Tensor cores compute the same products in TF32 up to eight times faster.

    How it is detected
    ------------------
    On an NVIDIA device of compute capability 8.0 or later, matrix products run in ``sgemm``
    kernels, and no product runs in TF32. The prediction replays the steps with kernel times for the
    TF32 peak (P5). Devices whose TF32 peak is less than 1.3 times the FP32 peak are not judged.

    What looks alike
    ----------------
    With TF32 on, the library uses FP32 kernels for a few small shapes, so a single TF32 product
    proves that it is on. Products with a vector (``gemv``) are memory-bound.

    What to do
    ----------
    Call ``torch.set_float32_matmul_precision("high")``. Its 10-bit mantissa is too short for
    solvers.

    References
    ----------
    PyTorch, CUDA semantics, "TensorFloat-32 (TF32) on Ampere (and later) devices".
    """
    capability = savings.cuda_capability(facts)
    peak = facts.peak
    if capability is None or capability < (8, 0) or peak is None or not peak.tf32:
        return None
    ratio = peak.tf32 / peak.fp32
    rows = facts.kernels[facts.group[facts.kernels] == "matrix_product"]
    if ratio < LEAST_RATIO or (facts.precision[rows] == "tf32").any():
        return None
    rows = rows[facts.precision[rows] == "fp32"]
    vector = np.intersect1d(rows, savings.kernels_named(facts, r"sgemm|ffma"))
    if not len(vector):
        return None
    share = savings.busy_share(facts, vector)
    return savings.make_proof(
        facts,
        vector,
        savings.scale_kernels(facts, (vector, _tf32_factors(facts, vector, peak.tf32, ratio))),
        headline=f"{share:.0%} of the busy time is FP32 matrix products with TF32 off",
        method=f"P5: TF32 times from a ratio of peaks of {ratio:.3g}, replayed",
        evidence=(
            savings.share_evidence("FP32 vector products, share of busy time", share, vector),
            savings.share_evidence("TF32 products", 0.0, rows),
        ),
        confidence=0.75,
    )


def _tf32_factors(facts: Facts, rows: I64, peak: float, ratio: float) -> Factors:
    """Time in TF32 / present time of every kernel: low, expected, high gain."""
    likely = lower_precision_factors(facts, rows, peak)
    likely = np.where(np.isnan(likely), 1 / max(CAREFUL, LIKELY * ratio), likely)
    best = 1 / max(CAREFUL, HOPED * ratio)
    return np.maximum(likely, 1 / CAREFUL), likely, np.where(likely > best, best, 1 / ratio)
