"""The sampling error of shares measured at random moments."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.sample_statistics import ratio_error
from whyidle.analysis.sampling.gil_waits import Z
from whyidle.model.diagnosis import Evidence
from whyidle.model.roles import Role


def share_bounds(facts: Facts, spans: Intervals, calls: Intervals = EMPTY) -> tuple[float, float]:
    """Return the interval of the share of the scope that ``spans`` have by stack samples. Samples
    in ``calls`` represent all of their time, if ``spans`` have some of it.

    Phase lengths are recorded, so the error is that of a stratified sample with known weights. Each
    share has Wilson's interval, valid for few samples (Brown, Cai & DasGupta, Statistical Science
    16(2), 2001); samples of unequal weight count as fewer, ``(sum w)^2 / sum w^2`` (Kish, Survey
    Sampling, 1965); strata combine by the squares of the distances to the limits (Zou & Donner,
    Statistics in Medicine 27, 2008). One random moment per period errs at most as much as
    independent moments. Errors at the ends of Python are not included (``unseen_python``).
    """
    share = facts.share_of(spans)
    samples = facts.timeline.looks
    if samples is None:
        return share, share
    inside = facts.scope.contains_times(samples.time) & (samples.weight > 0)
    hit = spans.contains_times(samples.time[inside])
    phase, weight = samples.phase[inside], samples.weight[inside]
    within = calls.contains_times(samples.time[inside])
    if (hit & within).any():
        weight = np.where(within, (calls & facts.scope).total / within.sum(), weight)
    total = max(facts.scope.total, 1)
    down = up = 0.0
    for stratum in np.unique(phase):
        members = phase == stratum
        part = min(float(weight[members].sum()) / total, 1.0)
        low, middle, high = wilson_interval(hit[members], weight[members])
        down += (part * (middle - low)) ** 2
        up += (part * (high - middle)) ** 2
    return max(0.0, share - down**0.5), min(1.0, share + up**0.5)


def between_steps(facts: Facts, spans: Intervals) -> float:
    """Return half of the 95 % interval in which the share may differ in other steps of the job."""
    start, end = facts.steps.start[facts.steps_in_scope], facts.steps.end[facts.steps_in_scope]
    return ratio_error(spans.length_inside(start, end).astype(float), (end - start).astype(float))


def unseen_python(facts: Facts, share: float) -> float:
    """Return the share of the scope that may be unseen Python, besides the ``share`` found."""
    samples = facts.timeline.looks
    if samples is None:
        return 0.0
    inside = samples.unsure & facts.scope.contains_times(samples.time)
    missed = float(samples.weight[inside].sum()) / max(facts.scope.total, 1)
    return min(missed, 1.0 - share)


def wilson_interval(hit: Mask, weight: F64) -> tuple[float, float, float]:
    """Return low, value and high of a weighted share of samples."""
    n = float(weight.sum() ** 2 / np.square(weight).sum())
    p = float((weight * hit).sum() / weight.sum())
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * float(np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2)))
    return min(max(0.0, centre - half), p), p, max(min(1.0, centre + half), p)


def sample_count(facts: Facts) -> int | None:
    """Return the number of samples in scope; None without sampling."""
    samples = facts.timeline.looks
    return None if samples is None else int(facts.scope.contains_times(samples.time).sum())


def share_evidence(facts: Facts, name: str, share: float) -> Evidence:
    """Return evidence of a share that samples measure."""
    return make_evidence(name, share, "ratio", samples=sample_count(facts), source="samples")


def is_sampled(facts: Facts, rows: I64) -> bool:
    """Return whether most of the time of these host events is known by stack samples."""
    host = facts.timeline.host
    if facts.timeline.looks is None or not len(rows):
        return False
    sampled = np.isin(rows, facts.timeline.rows_of(Role.SAMPLED))
    length = (host.end[rows] - host.start[rows]).astype(np.float64)
    return bool((length * sampled).sum() > 0.5 * length.sum())
