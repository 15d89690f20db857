"""What an interruption costs beside its own time, and what its complete absence would gain. On a
CPU the caches are cold after it, and the rest of the step takes longer.

Upper bound of the time that a step on a CPU loses by refilling its core's cache. No processor
counter is read; the bound assumes that every line of the core's own cache returns one after the
other.
"""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.partition.pauses import Pauses
from whyidle.analysis.sampling.gil_waits import Z
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.diagnosis import Predicted

LINES = 16384
"""64-byte lines in 1 MiB, the second-level cache of current server cores"""
FROM_MEMORY_S = 100e-9
"""one line from memory, after all cache levels were swept"""
WAITING = 2 / 3
"""largest share of a step that is such waiting: after a collection of 190 ms a step of 1.0 ms took
2.1 ms, and one of 7.1 ms 8.5 ms (PyTorch 2.13, two virtual cores with 1 MiB each)"""


def refill_bound_s(line_s: float, swept_s: float, rest_s: float) -> float:
    """Return the most by which a step of ``rest_s`` becomes longer, s, if a line returns in
    ``line_s`` and something else used the cache for ``swept_s``: it displaces no more lines than it
    loads. At most ``WAITING`` of the step goes to the cache."""
    return min(LINES * line_s, swept_s, WAITING * rest_s)


FEW = 5
"""steps with and without an interruption that are needed to measure its after-effect"""
SPEEDS = (0.5, 0.8, 1.5)
"""time of a line from memory, relative to `FROM_MEMORY_S` (lower bound, expected, upper bound):
steps of 1 to 8 ms lost 0.79 to 0.85 of that bound after collections of 60 to 190 ms on quiet cores,
and up to 1.5 on a busy machine (PyTorch 2.13, two virtual cores)"""


def after_effect(facts: Facts, pauses: Pauses, single_s: float = 0.0) -> tuple[float, float, float]:
    """After-effect of interruptions as share of the step: lower bound, expected, upper bound.

    Steps without one measure it, if the recording has both kinds, by the difference of the means,
    as shares are of the mean step: one step in five after a save waited for the system, which wrote
    what was saved. The lower bound is at most the difference of the medians. Otherwise the cache
    refill after interruptions of the usual length bounds it. Pauses known by samples also hit steps
    without a sample, so these measure nothing. ``single_s`` is the length of one that does not
    recur, s."""
    if not facts.on_cpu or not pauses.steps_hit:
        return 0.0, 0.0, 0.0
    hit, others = pauses.rest_s[pauses.hit], pauses.rest_s[~pauses.hit]
    often = pauses.steps_hit / max(facts.step_count, 1)
    if _is_measured(pauses):
        often_per_s = often / facts.step_s
        usual, mean = float(np.median(hit) - np.median(others)), float(hit.mean() - others.mean())
        variance = hit.var(ddof=1) / len(hit) + others.var(ddof=1) / len(others)
        error = Z * float(np.sqrt(variance))
        low, middle, high = (max(0.0, x) for x in (min(usual, mean - error), mean, mean + error))
        return often_per_s * low, often_per_s * middle, often_per_s * high
    usual_s = max(pauses.total_s - single_s, 0.0) / pauses.steps_hit
    rest_s = float(np.median(hit))
    careful, expected, hopeful = (
        often * refill_bound_s(speed * FROM_MEMORY_S, usual_s, rest_s) / facts.step_s
        for speed in SPEEDS
    )
    return careful, expected, hopeful


def _is_measured(pauses: Pauses) -> bool:
    """Whether steps with and without an interruption can be compared."""
    return not pauses.looked and FEW <= pauses.steps_hit <= len(pauses.hit) - FEW


def predict_absence(facts: Facts, pauses: Pauses, beside: Intervals = EMPTY) -> Predicted:
    """Predict the step without any of these interruptions: without their time, that ``beside``
    them, which samples show to be spent for them, and their after-effect. A single one may never
    recur."""
    gains = pauses.least, pauses.share, pauses.most
    measured = _is_measured(pauses)
    if beside and not measured:  # measured, it is a part of the after-effect
        whole = facts.time_of(pauses.role) | beside
        least, most = share_bounds(facts, whole)
        gains = least, facts.share_of(whole), most
    low, expected, high = gains
    careful, some, most = after_effect(facts, pauses)
    low = low + careful if measured else low
    expected, high = expected + some, min(1.0, high + most)
    if not pauses.is_recurring:
        low, expected = 0.0, expected / 2
    return predict_removal(low, high, "P9: the step without them", expected)
