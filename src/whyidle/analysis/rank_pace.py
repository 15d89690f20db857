"""Whether a late rank on a CPU had more to do, or less of a processor.

A thread's time is running, waiting for a core, and sleeping. Where ranks meet at every exchange of
gradients, a rank with more work runs longer between two of them; a rank that shares its core with
somebody else runs as long as the others and waits for the core. A core that is slower by itself
(clock, caches) makes the same work run longer: that cannot be told from more work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from whyidle.analysis.core_capacity import SHARED
from whyidle.analysis.facts import Facts

F64 = NDArray[np.float64]

LEAST = 4
"""with fewer common rounds nothing can be said"""
MIDDLE = (0.1, 0.9)
"""quantiles between which steps are compared: beyond are log lines, collections, other programs"""
ALONG = 10
"""steps whose median is the machine's own pace: work that varies does so from step to step. Even,
or every other step's work would be the median around itself"""


def _pace_drift(took: F64) -> F64:
    """How long a step takes all ranks on the average, as the machine's own pace changes."""
    around = np.pad(took.mean(axis=0), (ALONG // 2, ALONG // 2 - 1), mode="edge")
    return np.asarray(np.median(sliding_window_view(around, ALONG), axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class RankPaces:
    """Rounds between two exchanges, s, of shape (ranks, rounds); ``per_step`` rounds."""

    ran: F64
    queued: F64
    per_step: float

    def excess_of(self, index: int | None) -> tuple[float, float]:
        """What the late rank runs, and waits for a core, beyond the mean of the others, s per step.
        ``None``: whoever is latest in each round. Who runs longer also waits for a core more often:
        as much waiting as the others have for their running goes with the running."""
        count, rounds = self.ran.shape
        own = self.ran + self.queued
        late = own.argmax(axis=0) if index is None else np.full(rounds, index)
        found, usual = [], []
        for spent in (self.ran, self.queued):
            mine = spent[late, np.arange(rounds)]
            others = (spent.sum(axis=0) - mine) / max(count - 1, 1)
            found.append(float((mine - others).mean()) * self.per_step)
            usual.append(float(others.mean()))
        ran, queued = found
        along = max(0.0, min(queued, ran * usual[1] / max(usual[0], 1e-12)))
        return ran + along, queued - along

    @property
    def has_varying_work(self) -> bool:
        """Whether some rank's work itself differs from step to step. The same work runs longer
        while others use what its core shares with theirs, but not by more than a shared core is
        worth less than one alone: what is within that is laid to chance. What is slower for all
        ranks and many steps on end is the machine, and no rank's work."""
        each = max(round(self.per_step), 1)
        steps = self.ran.shape[1] // each
        if steps < LEAST:
            return False
        took = self.ran[:, : steps * each].reshape(len(self.ran), steps, each).sum(axis=2)
        short, long = np.quantile(took / np.maximum(_pace_drift(took), 1e-12), MIDDLE, axis=1)
        return bool((long * SHARED > short).any())

    def pace_of(self, index: int) -> tuple[float, float]:
        """What one rank runs, and waits for a core, s per step."""
        ran, queued = self.ran[index].mean(), self.queued[index].mean()
        return float(ran) * self.per_step, float(queued) * self.per_step


def find_paces(ranks: Sequence[Facts]) -> RankPaces | None:
    """The rounds in scope; None unless every rank recorded enough of them."""
    found = [facts.timeline.pace for facts in ranks if facts.timeline.pace is not None]
    if len(found) < max(len(ranks), 2):
        return None
    rounds = min(len(pace.time) for pace in found)
    if rounds <= LEAST:
        return None
    inside = np.ones(rounds - 1, dtype=bool)
    for facts, pace in zip(ranks, found, strict=True):
        known = facts.scope.contains_times(pace.time[:rounds])
        inside &= known[:-1] & known[1:]
    if inside.sum() < LEAST:
        return None
    ran, queued = (
        np.stack([np.diff(each[:rounds])[inside] / 1e9 for each in columns])
        for columns in ([pace.ran for pace in found], [pace.queued for pace in found])
    )
    length = float(np.diff(found[0].time[:rounds])[inside].mean()) / 1e9
    return RankPaces(ran, queued, per_step=ranks[0].step_s / max(length, 1e-9))
