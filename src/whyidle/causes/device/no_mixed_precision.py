"""Matrix work in 32 bits where 16 would do."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.step_replay import no_change
from whyidle.causes.device import _kernel_savings
from whyidle.causes.device._lower_precision import (
    cast_time,
    launched_casts,
    lower_precision_factors,
)
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import DeviceFacts

MOSTLY = 0.5
"""share of matrix time in 32 bits from which the model runs in 32 bits"""
SOME = 0.2
"""share of matrix time in 16 bits from which mixed precision is already on"""
FROM_FP32 = (1 / 1.5, 1 / 2.5, 1 / 4)
LIKELY = 0.7
"""share of the ratio of the two peaks, from TF32, that is expected"""
MEMORY_BOUND = (1.0, 1 / 1.4, 1 / 2)
"""time in 16 bits per time now: careful, expected, hopeful. Daydream (USENIX ATC 2020) replays
mixed precision with 1/3 for matrix work and 1/2 for memory-bound kernels; peaks differ by 8 (V100,
A100 vector), which real shapes do not reach"""
BOOKKEPT = (5.0, 2.5)
"""times the launch of a cast, what autocast takes of the host for each (careful, expected): it
looks at every operator, and casts have a backward pass. 2.5 times on the emulated device, one job,
whose device waited for the host: autocast alone made that slower; twice as much at the careful
end"""
TF32_RATIO = 2.0
"""peak in 16 bits per peak in TF32, of every device in the vendors' data sheets"""


@cause("Matrix work runs in 32 bits", bucket="compute", needs=("device_events",))
def no_mixed_precision(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Matrix products and convolutions run in FP32 (or TF32), on a device whose tensor cores multiply
    16-bit numbers several times faster.

    Why it costs
    ------------
    The arithmetic takes longer, and every activation moves twice the bytes.

    How it is detected
    ------------------
    At least half of the time in matrix kernels is in kernels named for 32 bits, less than a fifth
    in kernels named for 16 or 8, and the device has tensor or matrix cores. The gain is replayed
    against the recorded launches (P5): where the host is the bottleneck, it is small, and said so.
    Where shapes are recorded, what FLOPs and bytes take at the device's present peaks is expected
    to take what half the bytes and 16-bit peaks do, and the rest of a kernel to stay; casts of the
    weights and of their gradients are added, and what launching them takes of the host, two and a
    half times, as autocast looks at every operator: at the careful end twice that, which may make a
    step longer whose device waits for its host.

    What looks alike
    ----------------
    Work that must stay in FP32 (solvers, physics, metric learning) looks the same. Matrix products
    without TF32 on Ampere and later are also ``tf32-disabled``, the cheaper step.

    What to do
    ----------
    ``torch.autocast`` in bfloat16 (Ampere and later, AMD Instinct), or in float16 with a gradient
    scaler (Volta, Turing). Watch the loss: this changes the numbers.

    References
    ----------
    PyTorch, Automatic Mixed Precision package; Zhu et al., Daydream, USENIX ATC 2020.
    """
    dtype = _sixteen_bits(facts)
    rows = _kernel_savings.matrix_kernels(facts)
    if dtype is None or not len(rows):
        return None
    time, precision = facts.durations_s(rows), facts.precision[rows]
    whole = float(time.sum()) or 1.0
    wide = np.isin(precision, ("fp32", "tf32"))
    share = float(time[wide].sum()) / whole
    narrow = float(time[np.isin(precision, ("fp16", "bf16", "fp8", "int8"))].sum()) / whole
    if share < MOSTLY or narrow > SOME:
        return None
    factors = _kernel_savings.unit_factors(facts)
    for kind, usual in (("fp32", FROM_FP32), ("tf32", _from_tf32(facts))):
        these = rows[precision == kind]
        _kernel_savings.scale_times(
            factors, these, _half_precision_factors(facts, these, dtype, usual)
        )
    _kernel_savings.scale_times(factors, _memory_bound(facts), MEMORY_BOUND)
    added = cast_time(facts) / whole
    careful, expected = (launched_casts(facts, times) for times in BOOKKEPT)
    for factor in factors[:2]:
        factor[rows] += added
    return _kernel_savings.make_proof(
        facts,
        rows[wide],
        factors,
        headline=f"Matrix work runs in 32 bits ({share:.0%} of its time)",
        method="P5: 16-bit kernel times, replayed against the recorded launches",
        evidence=(
            _kernel_savings.share_evidence("32-bit share of matrix time", share, rows[wide]),
            _kernel_savings.share_evidence(
                "matrix share of busy time", _kernel_savings.busy_share(facts, rows), rows
            ),
        ),
        confidence=0.7,
        told=DeviceFacts(dtype=dtype),
        besides=(careful, expected, no_change),
    )


def _sixteen_bits(facts: Facts) -> str | None:
    """The 16-bit type that the device multiplies fast; None: it has none, or is unknown."""
    info = facts.timeline.info
    if info.kind == "rocm":
        return "bfloat16" if facts.peak and facts.peak.bf16 else None
    capability = _kernel_savings.cuda_capability(facts)
    if capability is None or capability < (7, 0):
        return None
    return "bfloat16" if capability >= (8, 0) else "float16"


def _from_tf32(facts: Facts) -> tuple[float, float, float]:
    """Time in 16 bits per time in TF32, by the device's peaks."""
    peak = facts.peak
    ratio = peak.bf16 / peak.tf32 if peak and peak.bf16 and peak.tf32 else TF32_RATIO
    return 1.0, 1.0 / max(LIKELY * ratio, 1.0), 1.0 / max(ratio, 1.0)


def _half_precision_factors(
    facts: Facts, rows: _kernel_savings.I64, dtype: str, usual: tuple[float, float, float]
) -> tuple[_kernel_savings.F64, _kernel_savings.F64, _kernel_savings.F64]:
    """Time in 16 bits per time now of every kernel (careful, expected, hopeful); the ``usual``
    ones where its work is not known."""
    peak = facts.peak
    rate = (peak.bf16 if dtype == "bfloat16" else peak.fp16) if peak else None
    likely = (
        lower_precision_factors(facts, rows, rate, size=0.5) if rate else np.full(len(rows), np.nan)
    )
    likely = np.where(np.isnan(likely), usual[1], likely)
    return np.maximum(likely, usual[0]), likely, np.minimum(likely, usual[2])


def _memory_bound(facts: Facts) -> _kernel_savings.I64:
    rows = facts.kernels
    groups = ("elementwise", "reduction", "normalisation", "copy", "layout")
    return rows[np.isin(facts.group[rows], groups) & (facts.precision[rows] == "fp32")]
