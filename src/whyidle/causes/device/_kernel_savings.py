"""What the causes of dear device work share: which kernels, on what hardware, worth what."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import no_faster, predict_substitution
from whyidle.analysis.rank_pacing import far_ahead, pace_s
from whyidle.analysis.step_replay import Saved, no_change
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import ProofFacts

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEAST_SHARE: Final = 0.01
"""share of the step below which a finding is not worth a word"""

_BY_NAME: Final = (
    ((9, 0), re.compile(r"sm90_|nvjet|hopper_", re.I)),
    ((8, 0), re.compile(r"ampere_|sm80_|cutlass_80", re.I)),
    ((7, 5), re.compile(r"turing_", re.I)),
    ((7, 0), re.compile(r"volta_", re.I)),
)


def cuda_capability(facts: Facts) -> tuple[int, int] | None:
    """The compute capability, recorded or told by kernel names; None on other devices."""
    info = facts.timeline.info
    if info.kind != "cuda":
        return None
    if info.capability:
        return info.capability
    names = [facts.timeline.names[i] for i in facts.kernel_classes]
    return next(
        (found for found, mark in _BY_NAME if any(mark.search(name) for name in names)), None
    )


def matrix_kernels(facts: Facts) -> I64:
    """Kernels in scope that do matrix work themselves."""
    does = [i for i, kind in facts.kernel_classes.items() if kind.tensor is not None]
    return facts.kernels[np.isin(facts.device.name[facts.kernels], does)]


def kernels_named(facts: Facts, pattern: str) -> I64:
    """Kernels in scope by name."""
    compiled = re.compile(pattern, re.I)
    wanted = [i for i in facts.kernel_classes if compiled.search(facts.timeline.names[i])]
    return facts.kernels[np.isin(facts.device.name[facts.kernels], wanted)]


def launcher_names(facts: Facts, rows: I64) -> list[str]:
    """Names of the operators that launched some kernels ("" unknown)."""
    operators = facts.launching_op[rows]
    host = facts.timeline.host
    return [facts.timeline.names[host.name[op]] if op >= 0 else "" for op in operators]


def busy_share(facts: Facts, rows: I64) -> float:
    """Share of all kernel time (0-1)."""
    whole = float(facts.durations_s(facts.kernels).sum())
    return float(facts.durations_s(rows).sum()) / whole if whole > 0 else 0.0


def unit_factors(facts: Facts) -> tuple[F64, F64, F64]:
    """Factors of 1 for every device event, three times: careful, expected, hopeful."""
    return (np.ones(len(facts.device)), np.ones(len(facts.device)), np.ones(len(facts.device)))


def scale_times(
    factors: tuple[F64, F64, F64], rows: I64, values: tuple[float | F64, float | F64, float | F64]
) -> None:
    """Give some device events other times in a set of factors."""
    for factor, value in zip(factors, values, strict=True):
        factor[rows] = value


def launch_places(facts: Facts, rows: I64) -> tuple[Place, ...]:
    """Where the longest of some kernels was launched from, as far as the recording tells."""
    operators = facts.launching_op[rows]
    known = rows[operators >= 0]
    if not len(known):
        return ()
    longest = int(known[np.argmax(facts.durations_s(known))])
    place = facts.places.place_of(int(facts.launching_op[longest]))
    return (place,) if place else ()


def share_evidence(quantity: str, value: float, rows: I64, source: str = "kernels") -> Evidence:
    """A share of the device's busy time, as evidence."""
    return Evidence(
        quantity=quantity,
        value=round(value, 4),
        unit="ratio",
        window="steps in scope",
        samples=len(rows),
        source=source,
    )


def count_evidence(quantity: str, value: float, samples: int) -> Evidence:
    """A mean count, as evidence."""
    return Evidence(
        quantity=quantity,
        value=round(value, 2),
        unit="1",
        window="steps in scope",
        samples=samples,
        source="kernels",
    )


def memory_used(facts: Facts) -> float | None:
    """Peak of allocated memory as share of the device's; None where either is not recorded."""
    memory, size = facts.timeline.memory, facts.timeline.info.memory_bytes
    if not len(memory.time) or not size:
        return None
    return float(memory.allocated.max()) / size


def make_proof(
    facts: Facts,
    rows: I64,
    factors: tuple[F64, F64, F64],
    *,
    headline: str,
    method: str,
    evidence: tuple[Evidence, ...],
    confidence: float,
    told: ProofFacts | None = None,
    besides: tuple[Saved, Saved, Saved] = (no_change, no_change, no_change),
) -> Proof | None:
    """A proof that these kernels are dearer than they need be; None where cheaper ones would win
    nothing, because the host is the bottleneck, or where the start-up is the story. ``besides``:
    host time that the cheaper ones take less, or more."""
    length = facts.device.end - facts.device.start
    most = float((length * (1.0 - factors[2]))[facts.device_rows].sum()) / facts.scope.total
    if facts.cold_start or most < LEAST_SHARE:
        return None
    low, high, predicted = predict_substitution(
        facts.replay,
        factors,
        method,
        unrecorded=facts.launching.without_recording(1.0),
        timed=facts.launching.is_cost_measured,
        besides=besides,
    )
    if far_ahead(facts):  # whose launches are in no replay
        low, high, predicted = no_faster(low, high, predicted, pace_s(facts) / facts.step_s)
    if high < LEAST_SHARE:
        return None
    return Proof(
        headline=headline,
        low=low,
        high=high,
        predicted=predicted,
        evidence=evidence,
        confidence=confidence,
        where=launch_places(facts, rows),
        facts=told or ProofFacts(),
    )
