"""All ranks of one job together: their meetings, their imbalance, their exposed communication."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.collective_arrivals import Meetings, find_meetings
from whyidle.analysis.ranks.exposed_communication import Exposure, find_exposure
from whyidle.analysis.ranks.rank_imbalance import RankImbalance
from whyidle.model.buckets import BUCKETS


class Job:
    """The ranks of one job. Of many, ``ranks`` are those that are diagnosed closely, and
    ``everyone`` are all, as surveyed."""

    def __init__(self, ranks: tuple[Facts, ...], everyone: tuple[Facts, ...] = ()) -> None:
        self.ranks = ranks
        self.everyone = everyone or ranks

    @cached_property
    def lead_rank(self) -> Facts:
        """The rank that represents the job: the one with the least useful device work."""
        return min(self.ranks, key=lambda facts: facts.attribution["compute"])

    @cached_property
    def signals(self) -> frozenset[str]:
        """The signals that every rank has, and whether there are several ranks."""
        several = {"several_ranks"} if len(self.ranks) > 1 else set()
        return frozenset.intersection(*(facts.signals for facts in self.ranks)) | several

    @cached_property
    def attribution(self) -> dict[str, float]:
        """Mean attribution over all ranks; sums to 1."""
        return {b: float(np.mean([f.attribution[b] for f in self.everyone])) for b in BUCKETS}

    @cached_property
    def whole(self) -> Job:
        """The job of all ranks, for what a survey tells."""
        return self if self.everyone is self.ranks else Job(self.everyone)

    @cached_property
    def meetings(self) -> Meetings:
        """The collectives at which ranks meet, in one clock."""
        return find_meetings(self.ranks)

    @cached_property
    def meets_every_step(self) -> bool:
        """Whether all ranks meet in every step, so that none is ahead for longer than one."""
        meetings = self.meetings
        complete = meetings.leave_together & meetings.present.all(axis=1)
        return len(self.ranks) > 1 and int(complete.sum()) >= self.lead_rank.step_count

    @cached_property
    def imbalance(self) -> RankImbalance:
        """Which rank waits for which."""
        return RankImbalance(self.ranks, self.meetings)

    @cached_property
    def exposure(self) -> Exposure | None:
        """Exposed communication; None without collectives."""
        return find_exposure(self.ranks, self.meetings, self.imbalance)
