"""What is kept, and known roughly only, is tried some times more where time is left.

A fix that brings much is kept after two pairs, by an interval so wide that it tells a user little:
to look after every pair, a trial must be surer each time. Once it is decided, nothing is chosen by
the interval any more, and more pairs make it narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.engine.trial.loop.ab_test import run_pair
from whyidle.engine.trial.loop.acceptance import is_proven_gain, too_little
from whyidle.engine.trial.loop.trial_result import MOST, ArmFactory, RejectionReason, TrialResult
from whyidle.engine.trial.statistics.alpha_spending import TOLD
from whyidle.engine.trial.statistics.speedup import SpeedupEstimate, estimate_speedup

ROUGH = 1.3
"""so many times its lower end is the upper end of an interval that says little: "between 1.2 and
11 times as fast" does not tell what to expect of a night's run"""
NOT_JUDGED = RejectionReason("unjudged", "not judged")


def confirm_gain(found: TrialResult, bench: ArmFactory, alike: Sequence[Sequence[float]]) -> None:
    """Tell the gain of what is kept by an interval of 95 %, from more pairs where it is rough and
    they can be had. A fix that fails in one of them, or is found not to gain after all, is kept no
    longer. ``alike`` as for ``judge``, without its own arms. Ctrl-C ends it with what is known."""
    update_gain(found, alike)
    while found.kept and is_wide(found.effect) and len(found.bases) < MOST and bench.affordable():
        arms = len(found.bases), len(found.treats)
        try:
            why = run_pair(found, bench)
        except KeyboardInterrupt:
            why = NOT_JUDGED
        if why:
            del found.bases[arms[0] :], found.treats[arms[1] :]
            if why.kind != "unjudged":
                found.kept, found.reason = False, why
            return
        now = _measure_gain(found, alike)
        found.effect = now
        if not is_proven_gain(now):
            found.kept, found.reason = False, too_little(found, now)


def update_gain(found: TrialResult, alike: Sequence[Sequence[float]]) -> None:
    """By an interval of 95 % where that agrees with what was decided by a wider one."""
    if (
        found.kept
        and found.base_s
        and found.treated_s
        and is_proven_gain(now := _measure_gain(found, alike))
    ):
        found.effect = now


def _measure_gain(found: TrialResult, alike: Sequence[Sequence[float]]) -> SpeedupEstimate:
    return estimate_speedup(found.base_s, found.treated_s, alike, TOLD)


def is_wide(gain: SpeedupEstimate | None) -> bool:
    """Whether its interval says little."""
    return gain is not None and gain.high > ROUGH * gain.low
