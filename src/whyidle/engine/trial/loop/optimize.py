"""Diagnose, try the most promising fix, keep what is proven, look again: until nothing is left.

After each fix that is kept the job is watched anew with it, so that what it hid is seen, and what
gains no more is not tried: the next candidates are judged by what the run itself then says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from whyidle.engine.trial.loop.ab_test import PROMISING, run_ab_test
from whyidle.engine.trial.loop.candidates import (
    WORTH,
    Candidate,
    PassedOver,
    candidate_key,
    choose_candidates,
    verdict_fixes,
)
from whyidle.engine.trial.loop.gain_confirmation import confirm_gain, update_gain
from whyidle.engine.trial.loop.trial_result import (
    ArmFactory,
    RejectionReason,
    TrialResult,
    harm_reason,
)
from whyidle.engine.trial.loop.trial_session import (
    LAST_ARMS,
    LEAST_ARMS,
    LONGER,
    PAIR,
    TrialSession,
    watch_job,
)
from whyidle.engine.trial.loop.value_search import choose_candidate_value
from whyidle.engine.trial.statistics.rare_events import MOST_S
from whyidle.errors import TrialError
from whyidle.model.diagnosis import Consent, Diagnosis, Edit

CONSENTS: tuple[Consent, ...] = ("none", "rounding", "numerics", "convergence")
Look = Callable[[TrialSession, int], Diagnosis]
"""watches the job as it is by now, so many times as long as is usual"""
UNSEEN = ("declined", "untold", "little")
"""kinds of reasons for which too little of what it is about may have been seen"""
GROWN = 1.1
"""so many times as large is the next budget that is asked for, at least"""
STOPPED = "interrupted before it was tried"
AMID = "interrupted while it was tried, so nothing can be said of it"


@dataclass(frozen=True, slots=True)
class Optimized:
    """What came of it. ``after`` is None where nothing was kept; ``whole`` is the trial of all kept
    fixes together, against the untreated job; ``stopped`` says why it ended early, if it did, and
    ``enough_s`` is a budget that would do for what was not tried for want of time; ``amid`` is what
    was being tried when it was interrupted."""

    before: Diagnosis
    after: Diagnosis | None
    judged: Sequence[TrialResult]
    kept: Sequence[Candidate]
    passed: Sequence[PassedOver]
    whole: TrialResult | None
    seconds: float
    stopped: str | None
    enough_s: float | None = None
    amid: Candidate | None = None
    looks: Sequence[Diagnosis] = ()
    """between ``before`` and ``after``, too"""


@dataclass(slots=True)
class _Progress:
    """How far it is."""

    now: Diagnosis
    look: Look
    looks: list[Diagnosis] = field(default_factory=list)
    """with one fix, with two, and so on"""
    passed: dict[str, PassedOver] = field(default_factory=dict)
    tried: set[tuple[str, tuple[Edit, ...]]] = field(default_factory=set)
    amid: Candidate | None = None
    """what is being tried"""
    stopped: str | None = None
    enough_s: float | None = None


def optimize(healing: TrialSession, look: Look = watch_job) -> Optimized:
    """Try, keep, and look again, within the budget. Ctrl-C ends it with what is known by then.

    Args:
        healing: the command, and what time there is.
        look: watches the job in detail.

    Raises:
        TrialError: the command does not run, or shows too few steps.
    """
    healing.voice.show_stage("watching the job as it is")
    before = _first_diagnosis(healing, look)
    course = _Progress(before, look)
    healing.voice.show_watched_job(before, choose_candidates(before, healing.allowed)[0])
    whole = None
    try:
        while _try_next(healing, course):
            pass
        whole = _judge_all_kept(healing)
    except (KeyboardInterrupt, TrialError) as error:  # what is proven by then stays so
        course.stopped = STOPPED if isinstance(error, KeyboardInterrupt) else str(error)
        whole = _single_judgement(healing)
        ready, _ = _open_candidates(healing, course)
        course.passed |= {one.fix: PassedOver(one, course.stopped) for one in ready}
    for one in healing.judged:
        update_gain(one, list(healing.alike_times(one)))
    done = {one.candidate.fix for one in healing.judged}
    if course.amid is not None:
        done.add(course.amid.fix)
    return Optimized(
        before=before,
        after=course.looks[len(healing.kept_candidates) - 1] if healing.kept_candidates else None,
        judged=healing.judged,
        kept=healing.kept_candidates,
        passed=[one for name, one in course.passed.items() if name not in done],
        whole=whole,
        seconds=time.monotonic() - healing.begun,
        stopped=course.stopped,
        enough_s=course.enough_s,
        amid=course.amid,
        looks=course.looks,
    )


def _first_diagnosis(healing: TrialSession, look: Look) -> Diagnosis:
    """How the job is. What says nothing for sure and offers nothing to try is watched longer, if
    the job was not over by then and there is time."""
    found = look(healing, 1)
    over = found.run.exit_status is not None or found.run.duration_s is None
    if (
        found.verdict.state != "inconclusive"
        or over
        or choose_candidates(found, healing.allowed)[0]
    ):
        return found
    if healing.left_s < 2 * LONGER * (found.run.duration_s or 0.0):
        return found
    healing.voice.show_stage("nothing is sure yet: watching the job longer")
    try:
        return look(healing, LONGER)
    except TrialError:  # it has been seen to run: what is known stays
        return found


def _try_next(healing: TrialSession, course: _Progress) -> bool:
    """Try the most promising fix; whether there was one, and time for it."""
    ready, aside = _open_candidates(healing, course)
    course.passed |= {one.candidate.fix: one for one in aside}
    if not ready:
        return False
    needed = LEAST_ARMS + LAST_ARMS * bool(healing.kept_candidates)
    if not (healing.can_afford(needed) or _may_exceed_budget(healing, ready[0], needed)):
        enough_s = _sufficient_budget(healing, needed, len(ready))
        course.enough_s = max(course.enough_s or 0.0, enough_s)
        course.stopped = _no_time(healing, needed, enough_s)
        course.passed |= {one.fix: PassedOver(one, course.stopped) for one in ready}
        return False
    course.amid = ready[0]
    candidate, searched, why = choose_candidate_value(healing, ready[0])
    cures = verdict_fixes(course.now)
    waits = any(one.fix in cures for one in ready[1:]) and ready[0].fix not in cures
    arms = make_arms(
        healing, candidate, healing.merged_edits(), healing.merged_edits(candidate), waits=waits
    )
    if why:
        judgement = TrialResult(candidate, reason=why)
    else:
        judgement = run_ab_test(
            candidate, arms, list(healing.alike_times()), healing.purse.next_alpha
        )
    if judgement.was_measured:
        healing.purse.spend_alpha(proven=judgement.is_proven)
    judgement.searched = searched
    _too_rare(healing, course, judgement)
    course.tried |= {candidate_key(ready[0]), candidate_key(candidate)}
    healing.judged.append(judgement)
    course.amid = None
    healing.voice.show_trial_result(judgement)
    if judgement.hurried:
        pair_s = judgement.pair_s * len(judgement.bases)
        enough_s = max(
            _sufficient_budget(healing, LEAST_ARMS, 1), _whole_minutes(healing.spent_s + pair_s)
        )
        course.enough_s = max(course.enough_s or 0.0, enough_s)
    if judgement.kept:
        _look_again(healing, course, judgement)
    return True


def _may_exceed_budget(healing: TrialSession, candidate: Candidate, arms: int) -> bool:
    """Whether so much is expected of it that the budget may be passed a little."""
    much = candidate.predicted is not None and candidate.predicted.speedup >= PROMISING
    return much and healing.over_s > arms * healing.arm_s


def _open_candidates(
    healing: TrialSession, course: _Progress
) -> tuple[list[Candidate], list[PassedOver]]:
    """What is still to be tried, as the job is by now, and what is not."""
    ready, aside = choose_candidates(course.now, healing.allowed, course.tried)
    return [one for one in ready if healing.changes_anything(one)], aside


def _too_rare(healing: TrialSession, course: _Progress, judgement: TrialResult) -> None:
    """Say so where an arm holds too little of what a fix is about to tell what it brings."""
    rare, why = judgement.candidate.rare, judgement.reason
    if rare is None or why is None or why.kind not in UNSEEN:
        return
    if any(ran.ending == "finished" for ran in judgement.bases):  # it has been seen to its end
        return
    if lacking := rare.explain_budget(healing.seconds):
        judgement.reason = replace(why, text=f"{why.text}; {lacking}")
        if rare.needs_s is not None:
            course.enough_s = max(course.enough_s or 0.0, rare.needs_s)


def _sufficient_budget(healing: TrialSession, arms: int, fixes: int) -> float:
    """A budget that would do for so many fixes more, of so many arms each; whole minutes. With it
    arms are longer, those that are run by now as well."""
    spent, enough = healing.spent_s, 2 * healing.budget_s
    while enough < MOST_S:
        each = healing.arm_at(enough)
        needs = spent * max(each / healing.arm_s, 1.0) + fixes * arms * each
        if needs <= enough:
            break
        enough = min(max(needs, GROWN * enough), MOST_S)
    return _whole_minutes(enough)


def _whole_minutes(seconds: float) -> float:
    """Rounded up to whole ones, in seconds."""
    return 60.0 * math.ceil(seconds / 60)


def _no_time(healing: TrialSession, arms: int, enough_s: float) -> str:
    """Why nothing more is tried."""
    needs, left = arms * healing.arm_s, max(healing.left_s, 0.0)
    last = " with the last checks" if healing.kept_candidates else ""
    return (
        f"no time: it takes about {needs:.0f} s{last}, {left:.0f} s were left "
        f"(--budget {enough_s / 60:.0f}m)"
    )


def _look_again(healing: TrialSession, course: _Progress, judgement: TrialResult) -> None:
    """Watch it with what is kept. What cannot even be watched is not kept after all."""
    healing.voice.show_stage("looking again with it")
    try:
        course.now = course.look(healing, 1)
        course.looks.append(course.now)
    except TrialError as error:
        judgement.kept, judgement.reason = False, harm_reason(f"{error.what} {error.why}")
        healing.voice.show_trial_result(judgement)
    except KeyboardInterrupt:  # it is proven, and was not looked at again
        course.looks.append(course.now)
        raise


def make_arms(
    healing: TrialSession,
    candidate: Candidate,
    base: tuple[Edit, ...],
    treated: tuple[Edit, ...],
    *,
    waits: bool = False,
) -> ArmFactory:
    """Arms with the edits of ``treated``, beside those with the edits of ``base``. Where what cures
    the verdict's cause ``waits`` for its turn, time for that is kept back."""
    kept_back = LEAST_ARMS * waits
    return ArmFactory(
        base=lambda: healing.run_trial_arm(base),
        treated=lambda: healing.run_trial_arm(treated),
        other=lambda: healing.run_trial_arm(base, seed=1),
        swayed=lambda seed, steps: healing.run_numeric_arm(base, steps, sway=seed),
        drawn=lambda steps: healing.run_numeric_arm(treated, steps, eager=True),
        noisy=lambda steps: healing.run_numeric_arm(base, steps, noise=True),
        affordable=lambda: healing.can_afford(LEAST_ARMS - 1 + kept_back),
        pressing=lambda: (
            not (healing.kept_candidates or waits) and healing.over_s > PAIR * healing.arm_s
        ),
        over=lambda seconds: healing.over_s < seconds,
        say=lambda text: healing.voice.show_stage(f"{candidate.fix}: {text}"),
        left=healing.left,
        reaching=lambda steps, usual: healing.run_to_step(base, steps, usual),
        lasting=lambda steps, usual: healing.run_to_step(treated, steps, usual),
    )


def all_kept(healing: TrialSession) -> Candidate:
    """All that is kept, as if it were one fix."""
    consent = max((one.consent for one in healing.kept_candidates), key=CONSENTS.index)
    return replace(
        healing.kept_candidates[-1], fix="all", consent=consent, edits=healing.merged_edits()
    )


def _judge_all_kept(healing: TrialSession) -> TrialResult | None:
    """All that is kept against the job as it was, as if it were one fix. Where it does not hold,
    what was kept last is given up, and the rest is asked again."""
    while len(healing.kept_candidates) > 1:
        fix = all_kept(healing)
        arms = make_arms(healing, fix, (), fix.edits)
        found = run_ab_test(fix, arms, list(healing.alike_times()))
        _confirm_all_kept(healing, found)
        sound = found.rejection_kind != "harm" and (found.check is None or found.check.holds)
        if found.kept or (found.effect and found.effect.speedup >= WORTH and sound):
            return found
        last = [one for one in healing.judged if one.kept][-1]
        last.kept = False
        last.reason = RejectionReason(
            "given up", f"given up: with the others, {found.rejection_text}"
        )
        healing.voice.show_trial_result(last)
    if only := _single_judgement(healing):
        _confirm_all_kept(healing, only)
        if not only.kept:
            healing.voice.show_trial_result(only)
    return _single_judgement(healing)


def _confirm_all_kept(healing: TrialSession, found: TrialResult) -> None:
    """Take what time is left to tell well what all that is kept brings; the last checks come after
    it."""
    arms = replace(
        make_arms(healing, found.candidate, (), healing.merged_edits()),
        affordable=lambda: healing.can_afford(PAIR + LAST_ARMS),
        say=lambda text: healing.voice.show_stage(f"how much that brings: {text}"),
    )
    confirm_gain(found, arms, list(healing.alike_times(found)))


def _single_judgement(healing: TrialSession) -> TrialResult | None:
    """The trial of what is kept, where that is one fix."""
    kept = [one for one in healing.judged if one.kept]
    return kept[0] if len(kept) == 1 else None
