"""What a fix is judged by, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.candidates import Candidate
from whyidle.engine.trial.numbers import Check, Untreated
from whyidle.engine.trial.once import Left, Once
from whyidle.engine.trial.pair import Effect
from whyidle.model.diagnosis import Searched

FEWEST, MOST = 2, 6
"""pairs: with six, and a tenth of the chance for each look before the last, a gain of a fifth is
kept in 74 of a hundred trials on a machine whose runs scatter by 10 %, with four and a fifth of the
chance in 47; a clear one takes hardly more pairs (simulated)"""
BACK = "rolled back"
"""so begins why a fix is not kept that did harm"""
DECLINED = "declined"
"""and so why one is not that the job did not take up: whatever was measured is no gain of it"""
UNTOLD = "no gain that could be told from chance"
"""and so why one is not kept that may do good or harm, for all that its times say"""


@dataclass(frozen=True, slots=True)
class Bench:
    """What runs the arms: without the fix, with it, without it but with other seeds; without it
    but with other rounding, which is random from a seed, for so many steps; with it, for so many
    steps, where compiled code draws its random numbers as other code does (``drawn``); and without
    it, for so many steps, where gradients are compared from step to step (``noisy``)."""

    base: Callable[[], Ran]
    treated: Callable[[], Ran]
    other: Callable[[], Ran]
    swayed: Callable[[int, int], Ran]
    drawn: Callable[[int], Ran]
    noisy: Callable[[int], Ran]
    affordable: Callable[[], bool]
    """whether there is time for another pair"""
    say: Callable[[str], None]
    left: Left | None = None
    """what of the job is still to run, where that is known"""


@dataclass(slots=True)
class Judgement:
    """What became of a fix. Times are seconds of a steady step, one for each arm, and where a fix
    gives steps more samples, of as many samples as a step has without it; ``once`` is what
    the fix costs once, before the steady part (compiling, starting workers); ``searched`` are the
    numbers of its knob that were tried before, to choose one; ``notes`` are sentences of what else
    was seen, without a full stop; ``untreated`` is what it was held against, rank by rank."""

    candidate: Candidate
    kept: bool = False
    why: str = ""
    effect: Effect | None = None
    check: Check | None = None
    base_s: list[float] = field(default_factory=list)
    treated_s: list[float] = field(default_factory=list)
    once: Once | None = None
    untreated: Mapping[int, Untreated] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)
    hurried: bool = False
    """whether only time was wanting for another pair, which might have told"""
    bases: list[Ran] = field(default_factory=list)
    treats: list[Ran] = field(default_factory=list)

    @property
    def asked(self) -> bool:
        """Whether its times were asked for a gain: what failed before was not."""
        return self.effect is not None and self.effect.pairs >= FEWEST

    @property
    def declined(self) -> bool:
        """Whether the job did not take it up."""
        return self.why.startswith(DECLINED)

    @property
    def untold(self) -> bool:
        """Whether its times tell neither that it is faster nor that it is slower."""
        return self.why.startswith(UNTOLD)

    @property
    def broken(self) -> bool:
        """Whether it did harm: the job failed with it, leaked, or computed something else."""
        return self.why.startswith(BACK)

    @property
    def proven(self) -> bool:
        """Whether it is faster beyond chance, whatever became of it."""
        return self.asked and self.effect is not None and self.effect.low > 1.0
