"""What a fix is judged by, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.loop.candidates import Candidate
from whyidle.engine.trial.statistics.loss_equivalence import BaselineRuns, LossCheck
from whyidle.engine.trial.statistics.speedup import SpeedupEstimate
from whyidle.engine.trial.statistics.startup_cost import RemainingJob, StartupCost
from whyidle.model.diagnosis import SearchedValue

FEWEST, MOST = 2, 6
"""pairs: with six, and a tenth of the chance for each look before the last, a gain of a fifth is
kept in 74 of a hundred trials on a machine whose runs scatter by 10 %, with four and a fifth of the
chance in 47; a clear one takes hardly more pairs (simulated)"""


@dataclass(frozen=True, slots=True)
class RejectionReason:
    """Why a fix is not kept, of which kind and in words: the job did not take it up (whatever was
    measured is no gain of it); it did harm; it may do good or harm, for all that its times say;
    what it brings is not worth it; the job fails without it, too, or the user ended it, so that
    nothing is known of it; the others are better off without it."""

    kind: Literal["declined", "harm", "untold", "little", "unjudged", "given up"]
    text: str


def declined_reason(why: str) -> RejectionReason:
    """That the job did not take it up."""
    return RejectionReason("declined", f"declined: {why}")


def harm_reason(why: str) -> RejectionReason:
    """That it is undone: the job failed with it, leaked, or computed something else."""
    return RejectionReason("harm", f"rolled back: {why}")


UNTOLD = RejectionReason("untold", "no gain that could be told from chance")


@dataclass(frozen=True, slots=True)
class ArmFactory:
    """What runs the arms: without the fix, with it, without it but with other seeds; without it
    but with other rounding, which is random from a seed, for so many steps; with it, for so many
    steps, where compiled code draws its random numbers as other code does (``drawn``); and without
    it, for so many steps, where gradients are compared from step to step (``noisy``)."""

    base: Callable[[], ArmResult]
    treated: Callable[[], ArmResult]
    other: Callable[[], ArmResult]
    swayed: Callable[[int, int], ArmResult]
    drawn: Callable[[int], ArmResult]
    noisy: Callable[[int], ArmResult]
    affordable: Callable[[], bool]
    """whether there is time for another pair"""
    say: Callable[[str], None]
    pressing: Callable[[], bool] = bool
    """whether one more may pass the budget a little, as nothing is kept so far"""
    over: Callable[[float], bool] = lambda _: False
    """whether so many seconds more would pass the budget by more than a little"""
    left: RemainingJob | None = None
    """what of the job is still to run, where that is known"""
    reaching: Callable[[int, int], ArmResult | None] = lambda *_: None
    """runs it without the fix for so many steps, where an arm of it makes so many; None: no time"""
    lasting: Callable[[int, int], ArmResult | None] = lambda *_: None
    """the same with the fix"""


@dataclass(slots=True)
class TrialResult:
    """What became of a fix. Times are seconds of a steady step, one for each arm, and where a fix
    gives steps more samples, of as many samples as a step has without it; ``once`` is what
    the fix costs once, before the steady part (compiling, starting workers); ``searched`` are the
    numbers of its knob that were tried before, to choose one; ``notes`` are sentences of what else
    was seen, without a full stop; ``untreated`` is what it was held against, rank by rank."""

    candidate: Candidate
    kept: bool = False
    reason: RejectionReason | None = None
    effect: SpeedupEstimate | None = None
    check: LossCheck | None = None
    base_s: list[float] = field(default_factory=list)
    treated_s: list[float] = field(default_factory=list)
    once: StartupCost | None = None
    untreated: Mapping[int, BaselineRuns] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: list[SearchedValue] = field(default_factory=list)
    hurried: bool = False
    """whether only time was wanting for another pair, or a longer run, which might have told"""
    bases: list[ArmResult] = field(default_factory=list)
    treats: list[ArmResult] = field(default_factory=list)

    @property
    def pair_s(self) -> float:
        """Seconds that its last pair took, both arms altogether; 0 before the first."""
        return sum(arms[-1].seconds for arms in (self.bases, self.treats) if arms)

    @property
    def was_measured(self) -> bool:
        """Whether its times were asked for a gain: what failed before was not."""
        return self.effect is not None and self.effect.pairs >= FEWEST

    @property
    def rejection_text(self) -> str:
        """Why it is not kept; empty where it is, or is not judged yet."""
        return self.reason.text if self.reason else ""

    @property
    def rejection_kind(self) -> str:
        """Of the reason; empty where there is none."""
        return self.reason.kind if self.reason else ""

    @property
    def is_proven(self) -> bool:
        """Whether it is faster beyond chance, whatever became of it."""
        return self.was_measured and self.effect is not None and self.effect.low > 1.0
