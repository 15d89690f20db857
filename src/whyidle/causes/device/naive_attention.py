"""Attention computes and stores its whole matrix of weights."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.flops import shapes_of
from whyidle.causes.device import _kernel_savings
from whyidle.causes.device._attention_source import attention_libraries
from whyidle.causes.device._unfused_attention import UnfusedAttention, written_out
from whyidle.causes.device._unfused_attention_cpu import written_out_on_cpu
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.proof_facts import DeviceFacts

REACHED = (0.15, 0.3, 0.5)
"""share of the peak that fused attention reaches, forward and backward: FlashAttention-2 reports 50
to 73 % on A100, less on H100 and for short sequences; careful, expected, hopeful"""
PRODUCTS = (1.0, 0.9, 0.6)
BETWEEN = (0.5, 0.15, 0.0)
"""where shapes or the peak are unknown: what stays of the products and of the other kernels"""


@cause(
    "Attention is written out instead of fused",
    bucket="compute",
    needs=("device_events",),
    watched=("device_time", "every_operator", "steps"),
)
def naive_attention(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Attention runs as product, softmax, product, with the matrix of weights (sequence by sequence,
    per head) written to memory and read again between them.

    Why it costs
    ------------
    The matrix grows with the square of the sequence; softmax, mask and dropout stream it from and
    to memory, several times, while the tensor cores wait.

    How it is detected
    ------------------
    Between two batched matrix products stand a softmax and nothing but small kernels. Where shapes
    and the device are known, the fused time is the products' FLOPs at the share of the peak that
    fused kernels reach; else products keep their time and what lies between mostly goes (P5). Both
    are replayed against the recorded launches.

    Where the device is the CPU, operators stand for kernels: a softmax, or its gradient, between
    two batched products, and no other product between them. What lies between goes by half, mostly,
    or all, and with it none, a little or some of the products' time: a fused operator keeps the
    weights in the cache, and leaves out what a causal mask hides. A watched run is judged by its
    burst, which holds every operator of some steps; without one it is not judged. Its lines are
    those at which the run was looked at during these operators of the forward pass, if it was;
    else, where no other softmax is called, those at which it was looked at in one.

    What looks alike
    ----------------
    A classifier's softmax has no batched product behind it. Attention whose weights somebody looks
    at cannot be fused; ``nn.MultiheadAttention`` returns them unless it is told not to, and most
    callers throw them away. ``scaled_dot_product_attention`` calls product, softmax, product itself
    where no fused kernel takes its inputs (on a CPU: with dropout): what lies within it, and its
    gradients, is not counted, for asking for it once more changes nothing.

    What to do
    ----------
    ``F.scaled_dot_product_attention`` with a mask and type that a fused kernel takes; with
    ``nn.MultiheadAttention`` ``need_weights=False``; with transformers
    ``attn_implementation="sdpa"``. Who wrote it out is told by frames that were recorded, or found
    by looks: the two libraries can be told while a job runs, a script's own code cannot.

    References
    ----------
    Dao, FlashAttention-2 (2023); PyTorch, ``scaled_dot_product_attention``.
    """
    if facts.on_cpu:
        return written_out_on_cpu(facts)
    found = written_out(facts)
    if not len(found.softmax):
        return None
    factors = _kernel_savings.unit_factors(facts)
    fused = _fused_time(facts, found)
    if fused is None:
        _kernel_savings.scale_times(factors, found.products, PRODUCTS)
        _kernel_savings.scale_times(factors, found.between, BETWEEN)
    else:
        now = float(facts.durations_s(found.all_rows).sum())
        left = [min(1.0, fused / reached / now) for reached in REACHED]
        _kernel_savings.scale_times(factors, found.all_rows, (left[0], left[1], left[2]))
    share = _kernel_savings.busy_share(facts, found.all_rows)
    softmax = _kernel_savings.busy_share(facts, found.between)
    return _kernel_savings.make_proof(
        facts,
        found.softmax,
        factors,
        headline=f"{share:.0%} of the busy time is attention written out, product by product",
        method="P5: fused attention at 15 to 50 % of the peak, replayed"
        if fused is not None
        else "P5: kernels between the products removed, replayed",
        evidence=(
            _kernel_savings.share_evidence(
                "written-out attention, share of busy time", share, found.all_rows
            ),
            _kernel_savings.share_evidence(
                "softmax and mask alone, share of busy time", softmax, found.between
            ),
            *_sequence_evidence(facts, found),
        ),
        confidence=0.85 if fused is not None else 0.65,
        told=DeviceFacts(attention=True, libraries=attention_libraries(facts)),
    )


def _fused_time(facts: Facts, found: UnfusedAttention) -> float | None:
    """Seconds that the products' FLOPs take at the device's peak for their precision; None where
    shapes or the device are unknown."""
    flops = facts.work.flops[found.products]
    if facts.peak is None or np.isnan(flops).any():
        return None
    peaks = [
        facts.peak.peak_flops(str(precision) or None, tensor=bool(tensor))
        for precision, tensor in zip(
            facts.precision[found.products], facts.uses_tensor_cores[found.products], strict=True
        )
    ]
    if any(peak is None for peak in peaks):
        return None
    return float(np.sum(flops / np.array(peaks, dtype=np.float64)))


def _sequence_evidence(facts: Facts, found: UnfusedAttention) -> tuple[Evidence, ...]:
    operator = facts.launching_op[found.softmax[np.argmax(facts.durations_s(found.softmax))]]
    shapes = (
        shapes_of(facts.timeline, int(facts.timeline.host.detail[operator]))
        if operator >= 0
        else []
    )
    if not shapes or not isinstance(shapes[0], list) or len(shapes[0]) < 2:
        return ()
    return (
        Evidence(
            quantity="shape of the weights",
            value=" x ".join(str(n) for n in shapes[0]),
            unit=None,
            window="largest softmax",
            samples=len(found.softmax),
            source="operator shapes",
        ),
    )
