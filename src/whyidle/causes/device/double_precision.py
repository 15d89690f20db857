"""The model is trained in 64 bits."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from whyidle.analysis.device.operator_times import own_times
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.source_lines import matching_lines
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.device import _kernel_savings as savings
from whyidle.model.cause import MOST_PLACES, NOTICEABLE, Proof, cause
from whyidle.model.proof_facts import DeviceFacts

REMAINING = (0.75, 0.5, 0.1)
"""share of a 64-bit kernel's time that stays in 32 bits (low, expected, high gain): half of the
bytes and, on devices for data centres, half of the arithmetic; 64-bit units of other devices are 32
to 64 times slower"""
REMOVED = (0.2, 0.42, 0.5)
"""share of the time of long operators on a CPU that is saved (low, expected, high): half of the
bytes, and twice as many numbers per instruction. Three products of 2304 x 768 in a step: 0.48 with
one thread, 0.24 with two that share their memory (PyTorch 2.13)"""
LONG_S = 20e-6
"""own time from which an operator's arithmetic takes longer than its call"""
NAMES: Final = re.compile(
    r"\.double\(\)|\benable_x64\b|\bset_floatx\(.*float64|"
    r"(?:default_dtype|dtype|astype|\bto)\b.*\b(?:float64|double)\b"
)
"""how sources ask for 64 bits"""


@cause(
    "The model is trained in 64 bits",
    bucket="compute",
    needs=("device_events",),
    watched=("device_time", "own_settings", "steady_steps"),
)
def double_precision(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Parameters and all computation are float64, often because NumPy arrays are float64 by default.

    Why it costs
    ------------
    float64 moves twice the bytes, and a vector instruction processes half as many numbers. On GPUs
    not made for simulation, float64 arithmetic is 32 to 64 times slower than float32.

    How it is detected
    ------------------
    On a CPU, the probe reports the type of the optimizer's parameters. The prediction saves 20 to
    50 % (expected: 42 %) of the time of operators of at least 20 us. If no operator was recorded,
    it covers all computing and its lower bound is zero. On a GPU, kernel names show the precision.
    The replay keeps 10 to 75 % of the time of 64-bit kernels (expected: 50 %, P5).

    What looks alike
    ----------------
    Solvers, Gaussian processes and physics may need float64: compare the loss. Data that is float64
    only in the loader is reported as ``worker-handoff-bottleneck``.

    What to do
    ----------
    Convert the data once (``array.astype(np.float32)``) and keep the model in float32.

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput by precision).
    """
    return _prove_on_cpu(facts) if facts.on_cpu else _prove_by_kernels(facts)


def _prove_by_kernels(facts: Facts) -> Proof | None:
    rows = facts.kernels[facts.precision[facts.kernels] == "fp64"]
    if not len(rows):
        return None
    share = savings.busy_share(facts, rows)
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, REMAINING)),
        headline=f"{share:.0%} of the busy time computes in 64 bits",
        method="P5: 64-bit kernels in 32 bits, replayed against the recorded launches",
        evidence=(savings.share_evidence("64-bit kernels, share of busy time", share, rows),),
        confidence=0.75,
    )


def _prove_on_cpu(facts: Facts) -> Proof | None:
    optimizer = facts.timeline.process.optimizer
    if optimizer is None or optimizer.dtype != "float64":
        return None
    recorded = facts.burst or facts
    part = _long_part(recorded) if "every_operator" in recorded.signals else None
    share = facts.bucket_share("compute") * (1.0 if part is None else part)
    gains = [(0.0 if part is None and not i else one) * share for i, one in enumerate(REMOVED)]
    if gains[1] < NOTICEABLE:
        return None
    where = matching_lines(facts.timeline.sources, NAMES, facts.rank)[:MOST_PLACES]
    at = f" ({(where[0].file or '').rpartition('/')[2]}:{where[0].line})" if where else ""
    return Proof(
        headline=f"The model is trained in 64 bits{at}",
        predicted=from_gains((gains[0], gains[1], gains[2]), "long operators in 32 bits"),
        evidence=(
            make_evidence("type of the parameters", optimizer.dtype, None, source="param_groups"),
            make_evidence("time of operators, share of step", share, "ratio"),
        ),
        confidence=0.75,
        where=where,
        facts=DeviceFacts(switched=facts.timeline.framework == "jax"),
    )


def _long_part(facts: Facts) -> float:
    """Share of the operators' time that is in long operators."""
    _, own_s, _ = own_times(facts)
    return float(own_s[own_s >= LONG_S].sum() / max(np.sum(own_s), 1e-12))
