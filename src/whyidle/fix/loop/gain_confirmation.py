"""Measures the gain of a kept fix more precisely if time is left.

A large gain is accepted after two pairs, with an interval that is too wide to be useful. After the
decision, further pairs make it narrower.
"""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.fix.loop.ab_test import run_pair
from whyidle.fix.loop.acceptance import is_proven_gain, too_little
from whyidle.fix.loop.trial_result import MOST, ArmFactory, RejectionReason, TrialResult
from whyidle.fix.statistics.alpha_spending import TOLD
from whyidle.fix.statistics.speedup import SpeedupEstimate, estimate_speedup

ROUGH = 1.3  # ratio of the ends above which an interval is too wide
NOT_JUDGED = RejectionReason("unjudged", "not tested")


def confirm_gain(trial: TrialResult, bench: ArmFactory, alike: Sequence[Sequence[float]]) -> None:
    """Narrow the interval of a kept fix by further pairs.

    A fix that fails in one of them, or turns out to gain nothing, is rejected. ``alike`` as for
    ``run_ab_test``, without its own arms. Ctrl-C keeps the result so far.
    """
    update_gain(trial, alike)
    while trial.kept and is_wide(trial.effect) and len(trial.bases) < MOST and bench.affordable():
        arms = len(trial.bases), len(trial.treats)
        try:
            why = run_pair(trial, bench)
        except KeyboardInterrupt:
            why = NOT_JUDGED
        if why:
            del trial.bases[arms[0] :], trial.treats[arms[1] :]
            if why.kind != "unjudged":
                trial.kept, trial.reason = False, why
            return
        now = _measure_gain(trial, alike)
        trial.effect = now
        if not is_proven_gain(now):
            trial.kept, trial.reason = False, too_little(trial, now)


def update_gain(trial: TrialResult, alike: Sequence[Sequence[float]]) -> None:
    """Replace the estimate by an interval of 95 %, if that confirms the decision."""
    if (
        trial.kept
        and trial.base_s
        and trial.treated_s
        and is_proven_gain(now := _measure_gain(trial, alike))
    ):
        trial.effect = now


def _measure_gain(trial: TrialResult, alike: Sequence[Sequence[float]]) -> SpeedupEstimate:
    return estimate_speedup(trial.base_s, trial.treated_s, alike, TOLD)


def is_wide(gain: SpeedupEstimate | None) -> bool:
    """Whether the interval is too wide to be useful."""
    return gain is not None and gain.high > ROUGH * gain.low
