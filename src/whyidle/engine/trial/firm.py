"""What is kept, and known roughly only, is tried some times more where time is left.

A fix that brings much is kept after two pairs, by an interval so wide that it tells a user little:
to look after every pair, a trial must be surer each time. Once it is decided, nothing is chosen by
the interval any more, and more pairs make it narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.engine.trial.chance import TOLD
from whyidle.engine.trial.judge import pair
from whyidle.engine.trial.judgement import MOST, Bench, Judgement, Reason
from whyidle.engine.trial.pair import Effect, effect
from whyidle.engine.trial.verdict import gains, too_little

ROUGH = 1.3
"""so many times its lower end is the upper end of an interval that says little: "between 1.2 and
11 times as fast" does not tell what to expect of a night's run"""
NOT_JUDGED = Reason("unjudged", "not judged")


def firm(found: Judgement, bench: Bench, alike: Sequence[Sequence[float]]) -> None:
    """Tell the gain of what is kept by an interval of 95 %, from more pairs where it is rough and
    they can be had. A fix that fails in one of them, or is found not to gain after all, is kept no
    longer. ``alike`` as for ``judge``, without its own arms. Ctrl-C ends it with what is known."""
    tell(found, alike)
    while found.kept and rough(found.effect) and len(found.bases) < MOST and bench.affordable():
        arms = len(found.bases), len(found.treats)
        try:
            why = pair(found, bench)
        except KeyboardInterrupt:
            why = NOT_JUDGED
        if why:
            del found.bases[arms[0] :], found.treats[arms[1] :]
            if why.kind != "unjudged":
                found.kept, found.reason = False, why
            return
        now = _told(found, alike)
        found.effect = now
        if not gains(now):
            found.kept, found.reason = False, too_little(found, now)


def tell(found: Judgement, alike: Sequence[Sequence[float]]) -> None:
    """By an interval of 95 % where that agrees with what was decided by a wider one."""
    if found.kept and found.base_s and found.treated_s and gains(now := _told(found, alike)):
        found.effect = now


def _told(found: Judgement, alike: Sequence[Sequence[float]]) -> Effect:
    return effect(found.base_s, found.treated_s, alike, TOLD)


def rough(gain: Effect | None) -> bool:
    """Whether its interval says little."""
    return gain is not None and gain.high > ROUGH * gain.low
