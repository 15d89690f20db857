"""Checks that the unchanged job of the trials is the job that was watched.

A gain over a baseline that the user does not have is no gain of the user's job: a cold cache,
other processes on the machine, or steps that are counted differently may explain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from statistics import fmean

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.number_text import format_duration

ALIKE = 0.25
"""difference of step times that is never questioned: turbo clocks, the recording of operators and
the first reads from the page cache make as much on an ordinary machine"""
PARTS = 4
"""consecutive parts of the watched steps whose means show its spread; single steps of a job that
loads ahead vary many times over, its mean does not"""


def explain_disagreement(watched: Diagnosis, base_s: Sequence[float]) -> str:
    """Explain in a sentence without its full stop that the untreated arms, of ``base_s`` seconds
    per step each, do not repeat the ``watched`` run; empty if they do, or if either is unknown."""
    watched_s = watched.steps.mean_s
    if not watched_s or not base_s:
        return ""
    trial_s = fmean(base_s)
    ratio = max(watched_s / trial_s, trial_s / watched_s)
    if ratio <= 1 + max(ALIKE, _spread(watched)):
        return ""
    return (
        f"the unchanged job took {format_duration(trial_s)} a step in the trials and "
        f"{format_duration(watched_s)} when it was watched; why is not known, so what it gains is "
        "not either"
    )


def _spread(watched: Diagnosis) -> float:
    """Relative difference between the slowest and the fastest part of the watched steps."""
    steps_s = list(compress(watched.detail.step_times_s, watched.detail.steady))
    size = len(steps_s) // PARTS
    if not size:
        return 0.0
    means = [fmean(steps_s[part * size : (part + 1) * size]) for part in range(PARTS)]
    return max(means) / min(means) - 1
