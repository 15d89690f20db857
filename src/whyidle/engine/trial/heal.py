"""Diagnose, try the most promising fix, keep what is proven, look again: until nothing is left.

After each fix that is kept the job is watched anew with it, so that what it hid is seen, and what
gains no more is not tried: the next candidates are judged by what the run itself then says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from whyidle.engine.trial.candidates import WORTH, Candidate, Passed, candidates, key, named
from whyidle.engine.trial.firm import firm, tell
from whyidle.engine.trial.healing import LAST_ARMS, LEAST_ARMS, LONGER, PAIR, Healing, look
from whyidle.engine.trial.judge import PROMISING, judge
from whyidle.engine.trial.judgement import Bench, Judgement, Reason, harm
from whyidle.engine.trial.rare import MOST_S
from whyidle.engine.trial.search import settle
from whyidle.errors import TrialError
from whyidle.model.diagnosis import Consent, Diagnosis, Edit

CONSENTS: tuple[Consent, ...] = ("none", "rounding", "numerics", "convergence")
Look = Callable[[Healing, int], Diagnosis]
"""watches the job as it is by now, so many times as long as is usual"""
UNSEEN = ("declined", "untold", "little")
"""kinds of reasons for which too little of what it is about may have been seen"""
GROWN = 1.1
"""so many times as large is the next budget that is asked for, at least"""
STOPPED = "interrupted before it was tried"
AMID = "interrupted while it was tried, so nothing can be said of it"


@dataclass(frozen=True, slots=True)
class Healed:
    """What came of it. ``after`` is None where nothing was kept; ``whole`` is the trial of all kept
    fixes together, against the untreated job; ``stopped`` says why it ended early, if it did, and
    ``enough_s`` is a budget that would do for what was not tried for want of time; ``amid`` is what
    was being tried when it was interrupted."""

    before: Diagnosis
    after: Diagnosis | None
    judged: Sequence[Judgement]
    kept: Sequence[Candidate]
    passed: Sequence[Passed]
    whole: Judgement | None
    seconds: float
    stopped: str | None
    enough_s: float | None = None
    amid: Candidate | None = None
    looks: Sequence[Diagnosis] = ()
    """between ``before`` and ``after``, too"""


@dataclass(slots=True)
class _Course:
    """How far it is."""

    now: Diagnosis
    look: Look
    looks: list[Diagnosis] = field(default_factory=list)
    """with one fix, with two, and so on"""
    passed: dict[str, Passed] = field(default_factory=dict)
    tried: set[tuple[str, tuple[Edit, ...]]] = field(default_factory=set)
    amid: Candidate | None = None
    """what is being tried"""
    stopped: str | None = None
    enough_s: float | None = None


def heal(healing: Healing, look: Look = look) -> Healed:
    """Try, keep, and look again, within the budget. Ctrl-C ends it with what is known by then.

    Args:
        healing: the command, and what time there is.
        look: watches the job in detail.

    Raises:
        TrialError: the command does not run, or shows too few steps.
    """
    healing.voice.say("watching the job as it is")
    before = _first(healing, look)
    course = _Course(before, look)
    healing.voice.seen(before, candidates(before, healing.allowed)[0])
    whole = None
    try:
        while _next(healing, course):
            pass
        whole = _whole(healing)
    except (KeyboardInterrupt, TrialError) as error:  # what is proven by then stays so
        course.stopped = STOPPED if isinstance(error, KeyboardInterrupt) else str(error)
        whole = _only(healing)
        ready, _ = _ready(healing, course)
        course.passed |= {one.fix: Passed(one, course.stopped) for one in ready}
    for one in healing.judged:
        tell(one, list(healing.alike(one)))
    done = {one.candidate.fix for one in healing.judged}
    if course.amid is not None:
        done.add(course.amid.fix)
    return Healed(
        before=before,
        after=course.looks[len(healing.kept) - 1] if healing.kept else None,
        judged=healing.judged,
        kept=healing.kept,
        passed=[one for name, one in course.passed.items() if name not in done],
        whole=whole,
        seconds=time.monotonic() - healing.begun,
        stopped=course.stopped,
        enough_s=course.enough_s,
        amid=course.amid,
        looks=course.looks,
    )


def _first(healing: Healing, look: Look) -> Diagnosis:
    """How the job is. What says nothing for sure and offers nothing to try is watched longer, if
    the job was not over by then and there is time."""
    found = look(healing, 1)
    over = found.run.exit_status is not None or found.run.duration_s is None
    if found.verdict.state != "inconclusive" or over or candidates(found, healing.allowed)[0]:
        return found
    if healing.left_s < 2 * LONGER * (found.run.duration_s or 0.0):
        return found
    healing.voice.say("nothing is sure yet: watching the job longer")
    try:
        return look(healing, LONGER)
    except TrialError:  # it has been seen to run: what is known stays
        return found


def _next(healing: Healing, course: _Course) -> bool:
    """Try the most promising fix; whether there was one, and time for it."""
    ready, aside = _ready(healing, course)
    course.passed |= {one.candidate.fix: one for one in aside}
    if not ready:
        return False
    needed = LEAST_ARMS + LAST_ARMS * bool(healing.kept)
    if not (healing.affords(needed) or _pressing(healing, ready[0], needed)):
        enough_s = _enough(healing, needed, len(ready))
        course.enough_s = max(course.enough_s or 0.0, enough_s)
        course.stopped = _no_time(healing, needed, enough_s)
        course.passed |= {one.fix: Passed(one, course.stopped) for one in ready}
        return False
    course.amid = ready[0]
    candidate, searched, why = settle(healing, ready[0])
    cures = named(course.now)
    waits = any(one.fix in cures for one in ready[1:]) and ready[0].fix not in cures
    arms = bench(healing, candidate, healing.edits(), healing.edits(candidate), waits=waits)
    if why:
        judgement = Judgement(candidate, reason=why)
    else:
        judgement = judge(candidate, arms, list(healing.alike()), healing.purse.offer)
    if judgement.asked:
        healing.purse.spend(proven=judgement.proven)
    judgement.searched = searched
    _too_rare(healing, course, judgement)
    course.tried |= {key(ready[0]), key(candidate)}
    healing.judged.append(judgement)
    course.amid = None
    healing.voice.judged(judgement)
    if judgement.hurried:
        pair_s = judgement.pair_s * len(judgement.bases)
        enough_s = max(_enough(healing, LEAST_ARMS, 1), _minutes(healing.spent_s + pair_s))
        course.enough_s = max(course.enough_s or 0.0, enough_s)
    if judgement.kept:
        _look_again(healing, course, judgement)
    return True


def _pressing(healing: Healing, candidate: Candidate, arms: int) -> bool:
    """Whether so much is expected of it that the budget may be passed a little."""
    much = candidate.predicted is not None and candidate.predicted.speedup >= PROMISING
    return much and healing.over_s > arms * healing.arm_s


def _ready(healing: Healing, course: _Course) -> tuple[list[Candidate], list[Passed]]:
    """What is still to be tried, as the job is by now, and what is not."""
    ready, aside = candidates(course.now, healing.allowed, course.tried)
    return [one for one in ready if healing.changes(one)], aside


def _too_rare(healing: Healing, course: _Course, judgement: Judgement) -> None:
    """Say so where an arm holds too little of what a fix is about to tell what it brings."""
    rare, why = judgement.candidate.rare, judgement.reason
    if rare is None or why is None or why.kind not in UNSEEN:
        return
    if any(ran.ending == "finished" for ran in judgement.bases):  # it has been seen to its end
        return
    if lacking := rare.lacking(healing.seconds):
        judgement.reason = replace(why, text=f"{why.text}; {lacking}")
        if rare.needs_s is not None:
            course.enough_s = max(course.enough_s or 0.0, rare.needs_s)


def _enough(healing: Healing, arms: int, fixes: int) -> float:
    """A budget that would do for so many fixes more, of so many arms each; whole minutes. With it
    arms are longer, those that are run by now as well."""
    spent, enough = healing.spent_s, 2 * healing.budget_s
    while enough < MOST_S:
        each = healing.arm_at(enough)
        needs = spent * max(each / healing.arm_s, 1.0) + fixes * arms * each
        if needs <= enough:
            break
        enough = min(max(needs, GROWN * enough), MOST_S)
    return _minutes(enough)


def _minutes(seconds: float) -> float:
    """Rounded up to whole ones, in seconds."""
    return 60.0 * math.ceil(seconds / 60)


def _no_time(healing: Healing, arms: int, enough_s: float) -> str:
    """Why nothing more is tried."""
    needs, left = arms * healing.arm_s, max(healing.left_s, 0.0)
    last = " with the last checks" if healing.kept else ""
    return (
        f"no time: it takes about {needs:.0f} s{last}, {left:.0f} s were left "
        f"(--budget {enough_s / 60:.0f}m)"
    )


def _look_again(healing: Healing, course: _Course, judgement: Judgement) -> None:
    """Watch it with what is kept. What cannot even be watched is not kept after all."""
    healing.voice.say("looking again with it")
    try:
        course.now = course.look(healing, 1)
        course.looks.append(course.now)
    except TrialError as error:
        judgement.kept, judgement.reason = False, harm(f"{error.what} {error.why}")
        healing.voice.judged(judgement)
    except KeyboardInterrupt:  # it is proven, and was not looked at again
        course.looks.append(course.now)
        raise


def bench(
    healing: Healing,
    candidate: Candidate,
    base: tuple[Edit, ...],
    treated: tuple[Edit, ...],
    *,
    waits: bool = False,
) -> Bench:
    """Arms with the edits of ``treated``, beside those with the edits of ``base``. Where what cures
    the verdict's cause ``waits`` for its turn, time for that is kept back."""
    kept_back = LEAST_ARMS * waits
    return Bench(
        base=lambda: healing.trial(base),
        treated=lambda: healing.trial(treated),
        other=lambda: healing.trial(base, seed=1),
        swayed=lambda seed, steps: healing.numbers(base, steps, sway=seed),
        drawn=lambda steps: healing.numbers(treated, steps, eager=True),
        noisy=lambda steps: healing.numbers(base, steps, noise=True),
        affordable=lambda: healing.affords(LEAST_ARMS - 1 + kept_back),
        pressing=lambda: not (healing.kept or waits) and healing.over_s > PAIR * healing.arm_s,
        over=lambda seconds: healing.over_s < seconds,
        say=lambda text: healing.voice.say(f"{candidate.fix}: {text}"),
        left=healing.left,
        reaching=lambda steps, usual: healing.reach(base, steps, usual),
        lasting=lambda steps, usual: healing.reach(treated, steps, usual),
    )


def every(healing: Healing) -> Candidate:
    """All that is kept, as if it were one fix."""
    consent = max((one.consent for one in healing.kept), key=CONSENTS.index)
    return replace(healing.kept[-1], fix="all", consent=consent, edits=healing.edits())


def _whole(healing: Healing) -> Judgement | None:
    """All that is kept against the job as it was, as if it were one fix. Where it does not hold,
    what was kept last is given up, and the rest is asked again."""
    while len(healing.kept) > 1:
        fix = every(healing)
        arms = bench(healing, fix, (), fix.edits)
        found = judge(fix, arms, list(healing.alike()))
        _firm(healing, found)
        sound = found.kind != "harm" and (found.check is None or found.check.holds)
        if found.kept or (found.effect and found.effect.speedup >= WORTH and sound):
            return found
        last = [one for one in healing.judged if one.kept][-1]
        last.kept = False
        last.reason = Reason("given up", f"given up: with the others, {found.why}")
        healing.voice.judged(last)
    if only := _only(healing):
        _firm(healing, only)
        if not only.kept:
            healing.voice.judged(only)
    return _only(healing)


def _firm(healing: Healing, found: Judgement) -> None:
    """Take what time is left to tell well what all that is kept brings; the last checks come after
    it."""
    arms = replace(
        bench(healing, found.candidate, (), healing.edits()),
        affordable=lambda: healing.affords(PAIR + LAST_ARMS),
        say=lambda text: healing.voice.say(f"how much that brings: {text}"),
    )
    firm(found, arms, list(healing.alike(found)))


def _only(healing: Healing) -> Judgement | None:
    """The trial of what is kept, where that is one fix."""
    kept = [one for one in healing.judged if one.kept]
    return kept[0] if len(kept) == 1 else None
