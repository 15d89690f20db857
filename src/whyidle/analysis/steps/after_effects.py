"""What an interruption costs beside its own time, and what its complete absence would gain. On a
CPU the caches are cold after it, and the rest of the step takes longer."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.partition.pauses import Pauses
from whyidle.analysis.sampling.gil_waits import Z
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.diagnosis import Predicted

FEW = 5
"""steps with and without an interruption that are needed to measure its after-effect"""


def after_effect(facts: Facts, pauses: Pauses) -> tuple[float, float, float] | None:
    """Return the after-effect of interruptions on a CPU as share of the step: lower bound,
    expected, upper bound. It is the difference between steps with and without one; None where the
    recording has too few of either. The means differ, as shares are of the mean step: one step in
    five after a save waited for the system, which wrote what was saved. The lower bound is at most
    the difference of the medians. Pauses known by samples also hit steps without a sample, so these
    measure nothing."""
    counted = not pauses.looked and FEW <= pauses.steps_hit <= len(pauses.hit) - FEW
    if not counted:
        return None
    if not facts.on_cpu:
        return 0.0, 0.0, 0.0
    hit, others = pauses.rest_s[pauses.hit], pauses.rest_s[~pauses.hit]
    often_per_s = pauses.steps_hit / max(facts.step_count, 1) / facts.step_s
    usual, mean = float(np.median(hit) - np.median(others)), float(hit.mean() - others.mean())
    error = Z * float(np.sqrt(hit.var(ddof=1) / len(hit) + others.var(ddof=1) / len(others)))
    low, middle, high = (max(0.0, x) for x in (min(usual, mean - error), mean, mean + error))
    return often_per_s * low, often_per_s * middle, often_per_s * high


def predict_absence(facts: Facts, pauses: Pauses, beside: Intervals = EMPTY) -> Predicted:
    """Predict the step without any of these interruptions: without their time, that ``beside``
    them, which samples show to be spent for them, and their after-effect. A single one may never
    recur."""
    gains, effect = (pauses.least, pauses.share, pauses.most), after_effect(facts, pauses)
    if beside and effect is None:  # else it is a part of the after-effect
        whole = facts.time_of(pauses.role) | beside
        least, most = share_bounds(facts, whole)
        gains = least, facts.share_of(whole), most
    low, expected, high = gains
    careful, some, most = effect or (0.0, 0.0, 0.0)
    low, expected, high = low + careful, expected + some, min(1.0, high + most)
    if not pauses.is_recurring:
        low, expected = 0.0, expected / 2
    return predict_removal(low, high, "P9: the step without them", expected)
