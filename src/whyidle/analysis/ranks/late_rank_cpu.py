"""Whether a late rank on a CPU had more work, or less of a core. A thread runs, waits for a core,
or sleeps. Between two gradient exchanges a rank with more work runs longer; a rank that shares its
core runs as long as the others and waits for the core. A core that is slower by itself (clock,
caches) cannot be separated from more work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import sliding_window_view

from whyidle.analysis.arrays import F64
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import SHARED

LEAST = 4
"""least common rounds"""
MIDDLE = (0.1, 0.9)
"""quantiles between which steps are compared; beyond are log lines, collections, other programs"""
ALONG = 10
"""even number of steps whose median is the machine's own pace; work varies from step to step"""


class RankPaces(Struct, frozen=True, eq=False):
    """Rounds between two exchanges, s, of shape (ranks, rounds); ``per_step`` rounds."""

    ran: F64
    queued: F64
    per_step: float

    def excess_of(self, index: int | None) -> tuple[float, float]:
        """Return how much longer the late rank (None: of each round) runs, and waits for a core,
        than the mean of the others, s per step. The others' waiting per run time counts as
        running."""
        count, rounds = self.ran.shape
        own = self.ran + self.queued
        late = own.argmax(axis=0) if index is None else np.full(rounds, index)
        excess, usual = [], []
        for spent in (self.ran, self.queued):
            late_time = spent[late, np.arange(rounds)]
            others = (spent.sum(axis=0) - late_time) / max(count - 1, 1)
            excess.append(float((late_time - others).mean()) * self.per_step)
            usual.append(float(others.mean()))
        ran, queued = excess
        along = max(0.0, min(queued, ran * usual[1] / max(usual[0], 1e-12)))
        return ran + along, queued - along

    @property
    def has_varying_work(self) -> bool:
        """Whether some rank's work varies from step to step by more than a shared core explains
        (``SHARED``), without the common drift of all ranks."""
        rounds = max(round(self.per_step), 1)
        steps = self.ran.shape[1] // rounds
        if steps < LEAST:
            return False
        times = self.ran[:, : steps * rounds].reshape(len(self.ran), steps, rounds).sum(axis=2)
        around = np.pad(times.mean(axis=0), (ALONG // 2, ALONG // 2 - 1), mode="edge")
        drift = np.median(sliding_window_view(around, ALONG), axis=1)
        short, long = np.quantile(times / np.maximum(drift, 1e-12), MIDDLE, axis=1)
        return bool((long * SHARED > short).any())

    def pace_of(self, index: int) -> tuple[float, float]:
        """Return how long one rank runs, and waits for a core, s per step."""
        ran, queued = self.ran[index].mean(), self.queued[index].mean()
        return float(ran) * self.per_step, float(queued) * self.per_step


def find_paces(ranks: Sequence[Facts]) -> RankPaces | None:
    """Return the rounds in scope; None unless every rank recorded enough of them."""
    paces = [facts.timeline.pace for facts in ranks if facts.timeline.pace is not None]
    if len(paces) < max(len(ranks), 2):
        return None
    rounds = min(len(pace.time) for pace in paces)
    if rounds <= LEAST:
        return None
    inside = np.ones(rounds - 1, dtype=bool)
    for facts, pace in zip(ranks, paces, strict=True):
        known = facts.scope.contains_times(pace.time[:rounds])
        inside &= known[:-1] & known[1:]
    if inside.sum() < LEAST:
        return None
    ran, queued = (
        np.stack([np.diff(column[:rounds])[inside] / 1e9 for column in columns])
        for columns in ([pace.ran for pace in paces], [pace.queued for pace in paces])
    )
    length = float(np.diff(paces[0].time[:rounds])[inside].mean()) / 1e9
    return RankPaces(ran, queued, per_step=ranks[0].step_s / max(length, 1e-9))
