"""Python time that goes into freeing the previous batch after the next one is handed over."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of

MOST: Final = 0.5
"""largest share of the unpickling time that freeing takes: lists and tuples of numbers 0.4 to 0.5,
dictionaries 0.35, objects 0.2, strings 0.15, arrays 0.1 (CPython 3.11)"""


def freeing_share(facts: Facts, spans: Intervals) -> float:
    """Return the share (0-1) of the samples in ``spans`` that may show a batch being freed, once
    the loop has the next one. Such samples cannot be separated from the loop's own Python."""
    takes, samples = facts.timeline.loading.takes, facts.timeline.looks
    if samples is None or not len(takes):
        return 0.0
    longest = np.rint(MOST * np.maximum(takes["unpickle"], 0)).astype(np.int64)
    freeing = union_of(takes["end"], takes["end"] + longest)
    inside = facts.scope.contains_times(samples.time) & spans.contains_times(samples.time)
    weight = samples.weight[inside]
    total = float(weight.sum())
    return (
        float(weight[freeing.contains_times(samples.time[inside])].sum()) / total if total else 0.0
    )
