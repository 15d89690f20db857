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
"""own time from which an operator's numbers, and not its call, decide how long it takes"""
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
    Parameters, and with them all computation, are of type float64. Arrays of NumPy and columns of
    tables have this type by default, and models are often made double to fit them.

    Why it costs
    ------------
    Twice the bytes are moved, and half as many numbers fit into an instruction. GPUs that are not
    made for simulation compute in 64 bits 32 to 64 times more slowly than in 32.

    How it is detected
    ------------------
    A watched process reports the type of most of its optimizer's parameters. On the CPU, operators
    that run for 20 us or longer lose 20, 42 or 50 % of their time; where no operator was recorded,
    all computing counts, and at least nothing is gained. On a GPU, kernels that are named for 64
    bits are replayed with 75, 50 and 10 % of their time (P5).

    What looks alike
    ----------------
    Solvers, Gaussian processes and physics may need 64 bits: compare the loss. Float64 that is made
    in the loader and converted before the model is ``worker-handoff-bottleneck``.

    What to do
    ----------
    Make data float32 once (``array.astype(np.float32)``), and leave the model as it is made.

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
        low=gains[0],
        high=gains[2],
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
    """Part of the operators' time that is in long ones."""
    _, own_s, _ = own_times(facts)
    return float(own_s[own_s >= LONG_S].sum() / max(np.sum(own_s), 1e-12))
