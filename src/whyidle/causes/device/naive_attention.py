"""Attention computes and stores its whole weight matrix."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import used_codes
from whyidle.causes.device import _kernel_savings as savings
from whyidle.causes.device._kernel_savings import Factors
from whyidle.causes.device._unfused_attention import UnfusedAttention, find_unfused_attention
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

REACHED = (0.15, 0.3, 0.5)
"""share of the peak that fused attention reaches, forward and backward (low, expected, high):
FlashAttention-2 reports 50 to 73 % on A100, less on H100 and for short sequences"""
PRODUCTS = (1.0, 0.9, 0.6)
BETWEEN = (0.5, 0.15, 0.0)
"""share of their time that the products and the kernels between them keep (low, expected, high
gain), if shapes or the peak are unknown"""
SWITCHES = {"framework": Role.OWN_ATTENTION, "models": Role.MODEL_LIBRARY_ATTENTION}
"""library -> role of the frames of its unfused attention"""


@cause(
    "Attention is unfused",
    bucket="compute",
    needs=("device_events",),
)
def naive_attention(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Attention runs as separate operators: product, softmax, product. The weight matrix (sequence by
    sequence, per head) is written to memory and read back between them.

    Why it costs
    ------------
    The matrix grows with the square of the sequence length. Softmax, mask and dropout each read and
    write it while the tensor cores wait.

    How it is detected
    ------------------
    A softmax lies between two batched matrix products, with only small kernels in between. If
    shapes and device are known, the replay runs the products' FLOPs at 15 to 50 % of the peak
    (expected: 30 %). Otherwise it removes 50 to 100 % of the time between the products (expected:
    85 %), and 0 to 40 % of the products' time (expected: 10 %, P5).

    What looks alike
    ----------------
    Attention cannot be fused if its weights are used elsewhere; ``nn.MultiheadAttention`` returns
    them by default, and most callers discard them. ``scaled_dot_product_attention`` itself runs
    product, softmax, product if no fused kernel supports its inputs. These do not count. Jobs on
    the CPU are not judged.

    What to do
    ----------
    Use ``F.scaled_dot_product_attention`` with a mask and type that a fused kernel supports,
    ``need_weights=False`` in ``nn.MultiheadAttention``, or ``attn_implementation="sdpa"`` in
    transformers.

    References
    ----------
    Dao, FlashAttention-2 (2023); PyTorch, ``scaled_dot_product_attention``.
    """
    attention = find_unfused_attention(facts)
    rows = attention.all_rows
    if not len(attention.softmax):
        return None
    fused = _fused_time(facts, attention)
    share, softmax = savings.busy_share(facts, rows), savings.busy_share(facts, attention.between)
    return savings.make_proof(
        facts,
        attention.softmax,
        _fused_factors(facts, attention, fused),
        headline=f"Unfused attention takes {share:.0%} of the busy time",
        method="P5: fused attention at 15 to 50 % of the peak, replayed"
        if fused is not None
        else "P5: kernels between the products removed, replayed",
        evidence=(
            savings.share_evidence("unfused attention, share of busy time", share, rows),
            savings.share_evidence(
                "softmax and mask alone, share of busy time", softmax, attention.between
            ),
            *_sequence_evidence(facts, attention),
        ),
        confidence=0.85 if fused is not None else 0.65,
        fix_facts=DeviceFacts(libraries=_attention_libraries(facts)),
    )


def _fused_factors(facts: Facts, attention: UnfusedAttention, fused: float | None) -> Factors:
    products, between = attention.products, attention.between
    if fused is None:
        return savings.scale_kernels(facts, (products, PRODUCTS), (between, BETWEEN))
    present = float(facts.durations_s(attention.all_rows).sum())
    low, expected, high = (min(1.0, fused / part / present) for part in REACHED)
    return savings.scale_kernels(facts, (attention.all_rows, (low, expected, high)))


def _fused_time(facts: Facts, attention: UnfusedAttention) -> float | None:
    """Seconds for the products' FLOPs at the device's peak for their precision; None where shapes
    or the device are unknown."""
    rows = attention.products
    flops = facts.work.flops[rows]
    if facts.peak is None or np.isnan(flops).any():
        return None
    kinds = zip(facts.precision[rows], facts.uses_tensor_cores[rows], strict=True)
    peaks = [
        facts.peak.peak_flops(str(kind) or None, tensor=bool(tensor)) for kind, tensor in kinds
    ]
    if None in peaks:
        return None
    return float(np.sum(flops / np.array(peaks, dtype=np.float64)))


def _sequence_evidence(facts: Facts, attention: UnfusedAttention) -> tuple[Evidence, ...]:
    shapes = savings.longest_input_shapes(facts, attention.softmax)
    if not shapes or not isinstance(shapes[0], list) or len(shapes[0]) < 2:
        return ()
    text, count = " x ".join(str(size) for size in shapes[0]), len(attention.softmax)
    name, source, window = "shape of the attention weights", "operator shapes", "largest softmax"
    return (make_evidence(name, text, None, samples=count, source=source, window=window),)


def _attention_libraries(facts: Facts) -> tuple[str, ...] | None:
    """Libraries whose attention appears in recorded frames and stack samples of the run; None
    without frames."""
    runs = [facts] if facts.live is None else [facts, facts.live]
    frames = [frame for run in runs for frame in _recorded_frames(run)]
    if not frames:
        return None
    plays = facts.timeline.vocabulary.plays
    return tuple(
        library for library, role in SWITCHES.items() if any(plays(role, text) for text in frames)
    )


def _recorded_frames(facts: Facts) -> list[str]:
    timeline = facts.timeline
    called = used_codes(timeline.host.name[timeline.host.kind == HostKind.PYTHON])
    stacks = [detail.stack for detail in timeline.details if detail.stack]
    return [*(timeline.names[i] for i in called), *stacks]
