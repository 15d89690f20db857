"""How far a share that looks at random moments told may be from the truth."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.sample_statistics import of_ratio
from whyidle.model.roles import Role

F64 = NDArray[np.float64]

Z: Final = 1.645
"""of a two-sided 90 % interval: one in ten shares may lie outside"""


def share_bounds(facts: Facts, spans: Intervals) -> tuple[float, float]:
    """Share of the scope that a set of time has, as told by stack samples: low and high.

    The lengths of the phases of a step are recorded; samples only tell what a phase consists of.
    So the error is that of a stratified sample with the phases as strata, of known weights. In
    each, the interval of a share is Wilson's, which holds for few looks and for shares of 0 and 1
    (Brown, Cai & DasGupta, "Interval Estimation for a Binomial Proportion", Statistical Science
    16(2), 2001). Looks that speak for unequal times count as fewer, ``(sum w)^2 / sum w^2`` (Kish,
    Survey Sampling, 1965). Strata are added as Zou & Donner do ("Construction of confidence limits
    about effect measures", Statistics in Medicine 27, 2008): squares of the distances to the
    limits. That neighbouring looks are alike makes the interval no wider: the moments are random,
    one in each period, and such a sample errs at most as much as independent ones do.

    Not contained: what a look itself gets wrong, such as the ends of stretches of Python
    (``unseen_python``).
    """
    share = facts.share_of(spans)
    looks = facts.timeline.looks
    if looks is None:
        return share, share
    mine = facts.scope.contains_times(looks.time) & (looks.weight > 0)
    hit, phase, weight = (
        spans.contains_times(looks.time[mine]),
        looks.phase[mine],
        looks.weight[mine],
    )
    total = max(facts.scope.total, 1)
    down = up = 0.0
    for each in np.unique(phase):
        here = phase == each
        whole = min(float(weight[here].sum()) / total, 1.0)
        low, middle, high = wilson_interval(hit[here], weight[here])
        down += (whole * (middle - low)) ** 2
        up += (whole * (high - middle)) ** 2
    return max(0.0, share - down**0.5), min(1.0, share + up**0.5)


def between_steps(facts: Facts, spans: Intervals) -> float:
    """How far the share of the scope that a set of time has may be from that of other steps of the
    same job: half an interval of 95 %."""
    start, end = facts.steps.start[facts.steps_in_scope], facts.steps.end[facts.steps_in_scope]
    return of_ratio(spans.length_inside(start, end).astype(float), (end - start).astype(float))


def unseen_python(facts: Facts, share: float) -> float:
    """Share of the scope that looks may have missed of Python, of which they found ``share``: those
    that found the lock taken, and were not counted as the job's own Python."""
    looks = facts.timeline.looks
    if looks is None:
        return 0.0
    mine = looks.unsure & facts.scope.contains_times(looks.time)
    missed = float(looks.weight[mine].sum()) / max(facts.scope.total, 1)
    return min(missed, 1.0 - share)


def wilson_interval(hit: NDArray[np.bool_], weight: F64) -> tuple[float, float, float]:
    """Low, value and high of a weighted share of looks."""
    n = float(weight.sum() ** 2 / np.square(weight).sum())
    p = float((weight * hit).sum() / weight.sum())
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * float(np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2)))
    return min(max(0.0, centre - half), p), p, max(min(1.0, centre + half), p)


def sample_count(facts: Facts) -> int | None:
    """How many looks there were in scope; None where none were taken."""
    looks = facts.timeline.looks
    return None if looks is None else int(facts.scope.contains_times(looks.time).sum())


def is_sampled(facts: Facts, rows: NDArray[np.int64]) -> bool:
    """Whether most of the time of these host events is told by stack samples of a watched process,
    and not by calls that were recorded."""
    host = facts.timeline.host
    if facts.timeline.looks is None or not len(rows):
        return False
    made = np.isin(rows, facts.timeline.rows_of(Role.SAMPLED))
    length = (host.end[rows] - host.start[rows]).astype(np.float64)
    return bool((length * made).sum() > 0.5 * length.sum())
