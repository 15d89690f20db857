"""Matrix work runs in 32 bits on a device with faster 16-bit units."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.step_replay import no_change
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._kernel_savings import Factors
from whyidle.causes.device._lower_precision import cast_launches, cast_time, lower_precision_factors
from whyidle.model.cause import MOSTLY, Proof, cause
from whyidle.model.proof_facts import DeviceFacts

SOME = 0.2
"""share of matrix time in 16 bits above which mixed precision is already on"""
FROM_FP32 = (1 / 1.5, 1 / 2.5, 1 / 4)
LIKELY = 0.7
"""expected share of the ratio of the 16-bit peak to the TF32 peak"""
MEMORY_BOUND = (1.0, 1 / 1.4, 1 / 2)
"""time in 16 bits / present time: low, expected, high gain. Daydream (USENIX ATC 2020) replays
mixed precision with 1/3 for matrix work and 1/2 for memory-bound kernels; peaks differ by 8 (V100,
A100 vector), which real shapes do not reach"""
AUTOCAST_COST = (5.0, 2.5)
"""host time of autocast per cast / launch of a cast (low, expected gain): autocast inspects every
operator, and casts have a backward pass. 2.5 was measured on the emulated device in one host-bound
job that autocast slows down; the lower bound doubles it"""
TF32_RATIO = 2.0
"""peak in 16 bits / peak in TF32, of every device in the vendors' data sheets"""


@cause("Matrix products run without 16-bit numbers", bucket="compute", needs=("device_events",))
def no_mixed_precision(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Matrix products and convolutions run in FP32, or in TF32 (Ampere and later), although the
    device's tensor cores are several times faster with 16-bit numbers.

    Why it costs
    ------------
    The arithmetic takes longer, and every activation moves twice the bytes.

    How it is detected
    ------------------
    At least half of the time in matrix kernels is in FP32 or TF32, at most a fifth is in 16 or 8
    bits, and the device has tensor or matrix cores.

    The prediction replays the steps with kernel times for the 16-bit peak and half the bytes (P5).
    It adds the casts of weights and gradients, and the host time to launch them, multiplied by 2.5
    because autocast inspects every operator (by 5 for the lower bound). If the host is the
    bottleneck, the gain is small or even negative.

    What looks alike
    ----------------
    Work that must stay in FP32 (solvers, physics, metric learning) looks the same. Without TF32 on
    Ampere and later, ``tf32-disabled`` is the smaller change.

    What to do
    ----------
    Use ``torch.autocast`` with bfloat16 (Ampere and later, AMD Instinct), or with float16 and a
    gradient scaler (Volta, Turing). This changes the numbers: compare the loss.

    References
    ----------
    PyTorch, Automatic Mixed Precision package; Zhu et al., Daydream, USENIX ATC 2020.
    """
    dtype = _sixteen_bits(facts)
    rows = savings.matrix_kernels(facts)
    if dtype is None or not len(rows):
        return None
    time, precision = facts.durations_s(rows), facts.precision[rows]
    total = float(time.sum()) or 1.0
    wide = np.isin(precision, ("fp32", "tf32"))
    share, busy = float(time[wide].sum()) / total, savings.busy_share(facts, rows)
    narrow = float(time[np.isin(precision, ("fp16", "bf16", "fp8", "int8"))].sum()) / total
    if share < MOSTLY or narrow > SOME:
        return None
    fp32, tf32 = (rows[precision == kind] for kind in ("fp32", "tf32"))
    factors = savings.scale_kernels(
        facts,
        (fp32, _half_precision_factors(facts, fp32, dtype, FROM_FP32)),
        (tf32, _half_precision_factors(facts, tf32, dtype, _tf32_ratios(facts))),
        (_memory_bound(facts), MEMORY_BOUND),
    )
    for factor in factors[:2]:
        factor[rows] += cast_time(facts) / total
    low, expected = (cast_launches(facts, times) for times in AUTOCAST_COST)
    kinds = " and ".join(kind.upper() for kind in ("fp32", "tf32") if (precision == kind).any())
    return savings.make_proof(
        facts,
        rows[wide],
        factors,
        headline=f"Matrix products run in {kinds} ({share:.0%} of matrix time)",
        method="P5: 16-bit kernel times, replayed against the recorded launches",
        evidence=(
            savings.share_evidence("32-bit share of matrix time", share, rows[wide]),
            savings.share_evidence("matrix share of busy time", busy, rows),
        ),
        confidence=0.7,
        fix_facts=DeviceFacts(dtype=dtype),
        host_changes=(low, expected, no_change),
    )


def _sixteen_bits(facts: Facts) -> str | None:
    """The 16-bit type with fast multiplication; None if the device has none or is unknown."""
    info = facts.timeline.info
    if info.kind == "rocm":
        return "bfloat16" if facts.peak and facts.peak.bf16 else None
    capability = savings.cuda_capability(facts)
    if capability is None or capability < (7, 0):
        return None
    return "bfloat16" if capability >= (8, 0) else "float16"


def _tf32_ratios(facts: Facts) -> tuple[float, float, float]:
    """Time in 16 bits / time in TF32, by the device's peaks."""
    peak = facts.peak
    ratio = peak.bf16 / peak.tf32 if peak and peak.bf16 and peak.tf32 else TF32_RATIO
    return 1.0, 1.0 / max(LIKELY * ratio, 1.0), 1.0 / max(ratio, 1.0)


def _half_precision_factors(
    facts: Facts, rows: I64, dtype: str, usual: tuple[float, float, float]
) -> Factors:
    """Time in 16 bits / present time of every kernel (low, expected, high gain); the ``usual``
    ratios where its work is unknown."""
    peak = facts.peak
    rate = (peak.bf16 if dtype == "bfloat16" else peak.fp16) if peak else None
    likely = np.full(len(rows), np.nan)
    if rate:
        likely = lower_precision_factors(facts, rows, rate, size=0.5)
    likely = np.where(np.isnan(likely), usual[1], likely)
    return np.maximum(likely, usual[0]), likely, np.minimum(likely, usual[2])


def _memory_bound(facts: Facts) -> I64:
    rows = facts.kernels
    groups = ("elementwise", "reduction", "normalisation", "copy", "layout")
    return rows[np.isin(facts.group[rows], groups) & (facts.precision[rows] == "fp32")]
