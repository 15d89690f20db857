"""Shared by causes of slow kernels: select kernels, predict faster ones, make the proof."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.flops import shapes_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import limit_speedup, predict_substitution
from whyidle.analysis.steps.host_step_time import is_far_ahead, pace_s
from whyidle.analysis.steps.step_replay import Saved, no_change
from whyidle.model.cause import LEAST_SHARE, Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import ProofFacts

Factors = tuple[F64, F64, F64]
Ratios = tuple[float | F64, float | F64, float | F64]

_BY_NAME: Final = (
    ((9, 0), re.compile(r"sm90_|nvjet|hopper_", re.I)),
    ((8, 0), re.compile(r"ampere_|sm80_|cutlass_80", re.I)),
    ((7, 5), re.compile(r"turing_", re.I)),
    ((7, 0), re.compile(r"volta_", re.I)),
)


def cuda_capability(facts: Facts) -> tuple[int, int] | None:
    """The compute capability, recorded or inferred from the device's units or, where its model is
    unknown, from kernel names, which newer devices share; None on other devices."""
    info = facts.timeline.info
    if info.kind != "cuda":
        return None
    if info.capability:
        return info.capability
    if facts.peak:
        return (8, 0) if facts.peak.tf32 else (7, 0) if facts.peak.fp16 else (6, 0)
    names = [facts.timeline.names[i] for i in facts.kernel_classes]
    return next((level for level, mark in _BY_NAME if any(map(mark.search, names))), None)


def matrix_kernels(facts: Facts) -> I64:
    """Kernels in scope that do matrix work themselves."""
    names = [i for i, kind in facts.kernel_classes.items() if kind.tensor is not None]
    return facts.kernels[np.isin(facts.device.name[facts.kernels], names)]


def kernels_named(facts: Facts, pattern: str) -> I64:
    """Kernels in scope whose names match a pattern, ignoring case."""
    compiled = re.compile(pattern, re.I)
    names = [i for i in facts.kernel_classes if compiled.search(facts.timeline.names[i])]
    return facts.kernels[np.isin(facts.device.name[facts.kernels], names)]


def longest_input_shapes(facts: Facts, rows: I64) -> list[list[int]]:
    """Shapes of the inputs of the operator that launched the longest of some kernels; empty where
    they are not recorded."""
    operator = int(facts.launching_op[rows[np.argmax(facts.durations_s(rows))]])
    detail = int(facts.timeline.host.detail[operator]) if operator >= 0 else -1
    return shapes_of(facts.timeline, detail)


def busy_share(facts: Facts, rows: I64) -> float:
    """Share of all kernel time (0-1)."""
    total = float(facts.durations_s(facts.kernels).sum())
    return float(facts.durations_s(rows).sum()) / total if total > 0 else 0.0


def scale_kernels(facts: Facts, *changes: tuple[I64, Ratios]) -> Factors:
    """Time factors of all device events (low, expected, high gain), 1 except for the rows given
    with their ratios."""
    count = len(facts.device)
    factors = np.ones(count), np.ones(count), np.ones(count)
    for rows, ratios in changes:
        for factor, ratio in zip(factors, ratios, strict=True):
            factor[rows] = ratio
    return factors


def share_evidence(quantity: str, value: float, rows: I64, source: str = "kernels") -> Evidence:
    """A share of the device's busy time, as evidence."""
    return make_evidence(quantity, round(value, 4), "ratio", samples=len(rows), source=source)


def memory_used(facts: Facts) -> float | None:
    """Peak of allocated memory as share of the device's; None where either is not recorded."""
    memory, size = facts.timeline.memory, facts.timeline.info.memory_bytes
    if not len(memory.time) or not size:
        return None
    return float(memory.allocated.max()) / size


def make_proof(
    facts: Facts,
    rows: I64,
    factors: Factors,
    *,
    headline: str,
    method: str,
    evidence: tuple[Evidence, ...],
    confidence: float,
    fix_facts: ProofFacts | None = None,
    host_changes: tuple[Saved, Saved, Saved] = (no_change, no_change, no_change),
) -> Proof | None:
    """Prove that faster kernels would shorten the step. ``host_changes``: host time that they
    also save or add.

    None during start-up, and where the host is the bottleneck, so that nothing is gained."""
    length = facts.device.end - facts.device.start
    most = float((length * (1.0 - factors[2]))[facts.device_rows].sum()) / facts.scope.total
    if facts.cold_start or most < LEAST_SHARE:
        return None
    low, high, predicted = predict_substitution(
        facts.replay,
        factors,
        method,
        unrecorded=facts.kernel_launching.without_recording(1.0),
        timed=facts.kernel_launching.is_cost_measured,
        besides=host_changes,
    )
    if is_far_ahead(facts):  # no replay includes the launches of this rank
        low, high, predicted = limit_speedup(low, high, predicted, pace_s(facts) / facts.step_s)
    if high < LEAST_SHARE:
        return None
    return Proof(
        headline=headline,
        low=low,
        high=high,
        predicted=predicted,
        evidence=evidence,
        confidence=confidence,
        where=_launch_places(facts, rows),
        facts=fix_facts or ProofFacts(),
    )


def _launch_places(facts: Facts, rows: I64) -> tuple[Place, ...]:
    """Where the longest of the kernels with a known operator was launched."""
    operators = facts.launching_op[rows]
    known = rows[operators >= 0]
    if not len(known):
        return ()
    longest = int(known[np.argmax(facts.durations_s(known))])
    place = facts.places.place_of(int(facts.launching_op[longest]))
    return (place,) if place else ()
