"""Python that runs because the batch before is taken apart, once the next one is handed over."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of

MOST: Final = 0.5
"""freeing what came out of a pickle takes at most this share of unpickling it: lists and tuples of
numbers 0.4 to 0.5, dictionaries 0.35, objects 0.2, strings 0.15, arrays at most 0.1 (CPython 3.11,
caches emptied in between)"""


def freeing_share(facts: Facts, spans: Intervals) -> float:
    """The part (0-1) of some time, as looks tell it, that may go into freeing a batch that workers
    handed over: the loop lets go of it as soon as it has the next one, and a look then waits for
    the interpreter's lock and shows a line further on. As long after each hand-over as that can
    take, Python of the loop's own is not told from it."""
    takes, looks = facts.timeline.loading.takes, facts.timeline.looks
    if looks is None or not len(takes):
        return 0.0
    lasts = np.rint(MOST * np.maximum(takes["unpickle"], 0)).astype(np.int64)
    first = union_of(takes["end"], takes["end"] + lasts)
    mine = facts.scope.contains_times(looks.time) & spans.contains_times(looks.time)
    weight = looks.weight[mine]
    whole = float(weight.sum())
    return float(weight[first.contains_times(looks.time[mine])].sum()) / whole if whole else 0.0
