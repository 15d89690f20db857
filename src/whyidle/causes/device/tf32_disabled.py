"""FP32 matrix products beside idle tensor cores."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.causes.device import _kernel_savings
from whyidle.causes.device._lower_precision import lower_precision_factors
from whyidle.model.cause import Proof, cause

LIKELY, HOPED = 0.45, 0.75
"""share of the nominal ratio of peaks that products of real shapes reach, expected and at best,
where their shapes are not recorded"""
CAREFUL = 1.5
LEAST_RATIO = 1.3
"""below this ratio of peaks (GeForce cards of the 30 and 40 series) TF32 is not worth a finding"""


@cause("TF32 is off for matrix products", bucket="compute", needs=("device_events", "gpu_model"))
def tf32_disabled(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    FP32 matrix products run on the vector units, because PyTorch's default since 1.12 keeps TF32
    off for them (``torch.get_float32_matmul_precision() == "highest"``).

    Why it costs
    ------------
    Tensor cores multiply the same tensors in TF32 up to eight times faster.

    How it is detected
    ------------------
    On an NVIDIA device of capability 8.0 or later, matrix products run in ``sgemm`` kernels, and
    not one runs in a TF32 kernel. Where shapes are recorded, what their FLOPs take at the present
    peak is expected to take what they do at TF32's, and the rest of a kernel to stay. The gain is
    replayed against the recorded launches (P5).

    What looks alike
    ----------------
    With TF32 on, the library still picks FP32 kernels for a few small shapes: one TF32 product is
    proof that it is on. Products with a vector (``gemv``) are bound by memory. Convolutions use
    TF32 by default. Volta and Turing have no TF32.

    What to do
    ----------
    ``torch.set_float32_matmul_precision("high")``. It keeps 10 bits of mantissa: not for solvers.

    References
    ----------
    PyTorch, CUDA semantics, "TensorFloat-32 (TF32) on Ampere (and later) devices".
    """
    capability = _kernel_savings.cuda_capability(facts)
    peak = facts.peak
    if capability is None or capability < (8, 0) or peak is None or not peak.tf32:
        return None
    ratio = peak.tf32 / peak.fp32
    rows = facts.kernels[facts.group[facts.kernels] == "matrix_product"]
    if ratio < LEAST_RATIO or (facts.precision[rows] == "tf32").any():
        return None
    rows = rows[facts.precision[rows] == "fp32"]
    vector = np.intersect1d(rows, _kernel_savings.kernels_named(facts, r"sgemm|ffma"))
    if not len(vector):
        return None
    share = _kernel_savings.busy_share(facts, vector)
    factors = _kernel_savings.unit_factors(facts)
    _kernel_savings.scale_times(factors, vector, _tf32_factors(facts, vector, ratio))
    return _kernel_savings.make_proof(
        facts,
        vector,
        factors,
        headline=f"{share:.0%} of the busy time is FP32 matrix products with TF32 off",
        method=f"P5: TF32 times from a ratio of peaks of {ratio:.3g}, replayed",
        evidence=(
            _kernel_savings.share_evidence(
                "FP32 vector products, share of busy time", share, vector
            ),
            _kernel_savings.share_evidence("TF32 products", 0.0, rows),
        ),
        confidence=0.75,
    )


def _tf32_factors(
    facts: Facts, rows: _kernel_savings.I64, ratio: float
) -> tuple[_kernel_savings.F64, _kernel_savings.F64, _kernel_savings.F64]:
    """Time in TF32 per time now of every kernel: careful, expected, hopeful."""
    peak = (facts.peak.tf32 if facts.peak else None) or 0.0
    likely = lower_precision_factors(facts, rows, peak)
    likely = np.where(np.isnan(likely), 1 / max(CAREFUL, LIKELY * ratio), likely)
    careful = np.maximum(likely, 1 / CAREFUL)
    hoped = 1 / max(CAREFUL, HOPED * ratio)
    return careful, likely, np.where(likely > hoped, hoped, 1 / ratio)
