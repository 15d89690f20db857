"""The result of a trial, and the arms that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.statistics.loss_equivalence import BaselineRuns, LossCheck
from whyidle.fix.statistics.speedup import SpeedupEstimate
from whyidle.fix.statistics.startup_cost import RemainingJob, StartupCost
from whyidle.model.diagnosis import SearchedValue

FEWEST, MOST = 2, 6
"""number of pairs: with six, and a tenth of alpha per interim analysis, a gain of a fifth is kept
in 74 % of trials if runs scatter by 10 %; with four, and a fifth of alpha, in 47 %. A clear gain
hardly takes more pairs (simulated)"""


@dataclass(frozen=True, slots=True)
class RejectionReason:
    """Why a fix is not kept.

    ``declined``: it took no effect; ``harm``: failure, leak or other losses; ``untold``: the gain
    is not significant; ``little``: the gain is too small; ``unjudged``: no result, because the job
    fails without it too or the user stopped; ``given up``: the other fixes work only without it.
    """

    kind: Literal["declined", "harm", "untold", "little", "unjudged", "given up"]
    text: str


def declined_reason(why: str) -> RejectionReason:
    """The fix took no effect."""
    return RejectionReason("declined", f"declined: {why}")


def harm_reason(why: str) -> RejectionReason:
    """The fix is undone: the job failed with it, leaked, or its losses changed."""
    return RejectionReason("harm", f"rolled back: {why}")


UNTOLD = RejectionReason("untold", "no significant gain")


@dataclass(frozen=True, slots=True)
class ArmFactory:
    """Runs the arms of one trial."""

    base: Callable[[], ArmResult]  # without the fix
    treated: Callable[[], ArmResult]  # with the fix
    other: Callable[[], ArmResult]  # without the fix, with other seeds
    swayed: Callable[[int, int], ArmResult]
    """without the fix, with rounding noise; takes a seed and a number of steps"""
    drawn: Callable[[int], ArmResult]
    """with the fix, for some steps; compiled code draws the random numbers of uncompiled code"""
    affordable: Callable[[], bool]  # whether there is time for another pair
    say: Callable[[str], None]  # shows progress
    pressing: Callable[[], bool] = bool
    """whether one more pair may exceed the budget, because nothing has been kept"""
    over: Callable[[float], bool] = lambda _: False
    """whether further seconds would exceed even the extended budget"""
    left: RemainingJob | None = None  # the remaining job, if known
    reaching: Callable[[int, int], ArmResult | None] = lambda *_: None
    """without the fix; takes a number of steps and that of a usual arm; None: no time"""
    lasting: Callable[[int, int], ArmResult | None] = lambda *_: None  # the same with the fix


@dataclass(slots=True)
class TrialResult:
    """The result of testing one fix."""

    candidate: Candidate
    kept: bool = False
    reason: RejectionReason | None = None
    effect: SpeedupEstimate | None = None
    check: LossCheck | None = None
    base_s: list[float] = field(default_factory=list)
    """seconds of a steady step, one per arm"""
    treated_s: list[float] = field(default_factory=list)
    once: StartupCost | None = None
    remaining_steps: float | None = None  # of the job, if known
    untreated: Mapping[int, BaselineRuns] = field(default_factory=dict)
    """rank -> runs without the fix that it was compared with"""
    notes: list[str] = field(default_factory=list)  # further observations, without full stop
    searched: list[SearchedValue] = field(default_factory=list)
    """values of its knob that were raced before"""
    hurried: bool = False  # only for lack of time there was no further pair or longer run
    bases: list[ArmResult] = field(default_factory=list)
    treats: list[ArmResult] = field(default_factory=list)

    @property
    def pair_s(self) -> float:
        """Duration of its last pair; 0 before the first."""
        return sum(arms[-1].seconds for arms in (self.bases, self.treats) if arms)

    @property
    def was_measured(self) -> bool:
        """Whether enough pairs were run for a test."""
        return self.effect is not None and self.effect.pairs >= FEWEST

    @property
    def rejection_text(self) -> str:
        """Why it is not kept; empty if it is, or is not decided yet."""
        return self.reason.text if self.reason else ""

    @property
    def rejection_kind(self) -> str:
        """Kind of the reason; empty without one."""
        return self.reason.kind if self.reason else ""

    @property
    def is_proven(self) -> bool:
        """Whether it is significantly faster, kept or not."""
        return self.was_measured and self.effect is not None and self.effect.low > 1.0
