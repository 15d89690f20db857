"""Diagnose, try the most promising fix, keep what is proven, look again: until nothing is left.

After each fix that is kept the job is watched anew with it, so that what it hid is seen, and what
gains no more is not tried: the next candidates are judged by what the run itself then says.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from whyidle.engine.trial import judge
from whyidle.engine.trial.arm import Told
from whyidle.engine.trial.candidates import Candidate, Passed, candidates, key
from whyidle.engine.trial.healing import Healing, look
from whyidle.engine.trial.judge import Bench, Judgement
from whyidle.engine.trial.pair import Effect, common, effect, step_s
from whyidle.errors import TrialError
from whyidle.model.diagnosis import Diagnosis, Edit

LEAST_ARMS = 4
"""what a trial takes: two pairs"""
SPENT = "not tried: the budget was spent (--budget)"
STOPPED = "not tried: it was stopped"


@dataclass(frozen=True, slots=True)
class Healed:
    """What came of it. ``after`` is None where nothing was kept; ``whole`` is what all kept fixes
    bring together, against the untreated job; ``stopped`` says why it ended early, if it did."""

    before: Diagnosis
    after: Diagnosis | None
    judged: Sequence[Judgement]
    kept: Sequence[Candidate]
    passed: Sequence[Passed]
    whole: Effect | None
    seconds: float
    stopped: str | None


@dataclass(slots=True)
class _Course:
    """How far it is."""

    now: Diagnosis
    after: Diagnosis | None = None
    passed: dict[str, Passed] = field(default_factory=dict)
    tried: set[tuple[str, tuple[Edit, ...]]] = field(default_factory=set)
    stopped: str | None = None


def heal(healing: Healing) -> Healed:
    """Try, keep, and look again, within the budget. Ctrl-C ends it with what is known by then.

    Raises:
        TrialError: the command does not run, or shows too few steps.
    """
    healing.voice.say("watching the job as it is")
    before = look(healing)
    course = _Course(before)
    whole = None
    try:
        while _next(healing, course):
            pass
        whole = _whole(healing)
    except KeyboardInterrupt:
        course.stopped = STOPPED
        ready, _ = candidates(course.now, healing.allowed, course.tried)
        course.passed |= {one.treatment: Passed(one, STOPPED) for one in ready}
    done = {one.candidate.treatment for one in healing.judged}
    return Healed(
        before=before,
        after=course.after,
        judged=healing.judged,
        kept=healing.kept,
        passed=[one for name, one in course.passed.items() if name not in done],
        whole=whole,
        seconds=time.monotonic() - healing.begun,
        stopped=course.stopped,
    )


def _next(healing: Healing, course: _Course) -> bool:
    """Try the most promising fix; whether there was one, and time for it."""
    ready, aside = candidates(course.now, healing.allowed, course.tried)
    course.passed |= {one.candidate.treatment: one for one in aside}
    if not ready:
        return False
    if not healing.affords(LEAST_ARMS):
        course.stopped = SPENT
        course.passed |= {one.treatment: Passed(one, SPENT) for one in ready}
        return False
    candidate = ready[0]
    course.tried.add(key(candidate))
    judgement = judge.judge(candidate, _bench(healing, candidate), list(healing.alike()))
    if judgement.kept:
        healing.kept.append(candidate)
        _look_again(healing, course, judgement)
    healing.judged.append(judgement)
    healing.voice.judged(judgement)
    return True


def _look_again(healing: Healing, course: _Course, judgement: Judgement) -> None:
    """Watch it with what is kept. What cannot even be watched is not kept after all."""
    healing.voice.say("looking again with it")
    try:
        course.now = course.after = look(healing)
    except TrialError as error:
        healing.kept.pop()
        judgement.kept, judgement.why = False, f"rolled back: {error.what} {error.why}"


def _bench(healing: Healing, candidate: Candidate) -> Bench:
    return Bench(
        base=lambda: healing.trial(healing.edits()),
        treated=lambda: healing.trial(healing.edits(candidate)),
        other=lambda: healing.trial(healing.edits(), seed=1),
        affordable=lambda: healing.affords(3),
        say=lambda text: healing.voice.say(f"{candidate.treatment}: {text}"),
    )


def _whole(healing: Healing) -> Effect | None:
    """What all that is kept brings: measured where several are, in as many pairs as there is time
    for, and one at least."""
    kept = [one for one in healing.judged if one.kept]
    if len(kept) < 2:
        return kept[0].effect if kept else None
    base: list[Told] = []
    treated: list[Told] = []
    while not base or (len(base) < judge.FEWEST and healing.affords(LEAST_ARMS)):
        healing.voice.say("all that is kept against the job as it was")
        for edits, arms in (((), base), (healing.edits(), treated)):
            ran = healing.trial(edits)
            if not ran.good or ran.told is None:
                return None
            arms.append(ran.told)
    steps, others = common(base, treated)
    return effect(
        [step_s(told, steps) for told in base],
        [step_s(told, others) for told in treated],
        list(healing.alike()),
    )
