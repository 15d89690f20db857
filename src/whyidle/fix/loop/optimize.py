"""Diagnoses the job, tests the most promising fix, keeps it if proven, and repeats.

After each kept fix the job is diagnosed again with it, because it may reveal other causes and make
other fixes useless.

A large gain is accepted after two pairs, with an interval that is too wide to be useful: further
pairs make it narrower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from whyidle.errors import TrialError, UndiagnosedError
from whyidle.fix.loop.ab_test import PROMISING, run_ab_test, run_pair
from whyidle.fix.loop.acceptance import is_proven_gain, too_little
from whyidle.fix.loop.candidates import (
    WORTH,
    Candidate,
    PassedOver,
    candidate_key,
    choose_candidates,
    verdict_fixes,
)
from whyidle.fix.loop.trial_result import (
    MOST,
    ArmFactory,
    RejectionReason,
    TrialResult,
    harm_reason,
)
from whyidle.fix.loop.trial_session import (
    LAST_ARMS,
    LEAST_ARMS,
    LONGER,
    PAIR,
    TrialSession,
    watch_job,
)
from whyidle.fix.loop.value_search import choose_candidate_value
from whyidle.fix.statistics.alpha_spending import TOLD
from whyidle.fix.statistics.speedup import SpeedupEstimate, estimate_speedup
from whyidle.model.diagnosis import Consent, Diagnosis, Edit

CONSENTS: tuple[Consent, ...] = ("none", "rounding", "numerics", "convergence")
Look = Callable[[TrialSession, int], Diagnosis]
"""diagnoses the job with the kept fixes; the number multiplies the usual duration"""
MOST_S = 24 * 3600.0  # longest possible budget
GROWN = 1.1  # least factor between suggested budgets
STOPPED = "interrupted before it was tried"
AMID = "interrupted during its trial, without a result"
ROUGH = 1.3  # ratio of the ends above which an interval is too wide
NOT_JUDGED = RejectionReason("unjudged", "not tested")


@dataclass(frozen=True, slots=True)
class Optimized:
    """The result of a session."""

    before: Diagnosis
    after: Diagnosis | None  # None if nothing was kept
    judged: Sequence[TrialResult]
    kept: Sequence[Candidate]
    passed: Sequence[PassedOver]
    combined_trial: TrialResult | None  # the trial of all kept fixes together
    seconds: float
    stopped: str | None  # why it ended early, if it did
    enough_s: float | None = None  # a sufficient budget, if time ran out
    interrupted_fix: Candidate | None = None  # the fix whose trial was interrupted
    diagnoses: Sequence[Diagnosis] = ()  # diagnoses after each kept fix


@dataclass(slots=True)
class _Progress:
    now: Diagnosis
    look: Look
    looks: list[Diagnosis] = field(default_factory=list)
    passed: dict[str, PassedOver] = field(default_factory=dict)
    tried: set[tuple[str, tuple[Edit, ...]]] = field(default_factory=set)
    amid: Candidate | None = None  # the fix in its trial
    stopped: str | None = None
    enough_s: float | None = None


def optimize(session: TrialSession, look: Look = watch_job) -> Optimized:
    """Test fixes within the budget, with ``look`` to diagnose the job. Ctrl-C ends the session with
    the results so far.

    Raises:
        TrialError: the command fails, or takes too few steps.
    """
    session.listener.show_stage("watching the unchanged job")
    before = _first_diagnosis(session, look)
    progress = _Progress(before, look)
    session.listener.show_watched_job(before, choose_candidates(before, session.allowed)[0])
    whole = None
    try:
        while _try_next(session, progress):
            pass
        whole = _judge_all_kept(session)
    except (KeyboardInterrupt, TrialError) as error:  # proven fixes stay kept
        progress.stopped = STOPPED if isinstance(error, KeyboardInterrupt) else str(error)
        whole = _single_judgement(session)
        ready, _ = _open_candidates(session, progress)
        progress.passed |= {one.fix: PassedOver(one, progress.stopped) for one in ready}
    for one in session.judged:
        update_gain(one, list(session.alike_times(one)))
    done = {one.candidate.fix for one in session.judged}
    if progress.amid is not None:
        done.add(progress.amid.fix)
    return Optimized(
        before=before,
        after=progress.looks[len(session.kept_candidates) - 1] if session.kept_candidates else None,
        judged=session.judged,
        kept=session.kept_candidates,
        passed=[one for name, one in progress.passed.items() if name not in done],
        combined_trial=whole,
        seconds=time.monotonic() - session.begun,
        stopped=progress.stopped,
        enough_s=progress.enough_s,
        interrupted_fix=progress.amid,
        diagnoses=progress.looks,
    )


def _first_diagnosis(session: TrialSession, look: Look) -> Diagnosis:
    """Diagnose the unchanged job; longer if the first diagnosis is inconclusive without
    candidates, the job did not end, and time is left."""
    diagnosis = look(session, 1)
    ended = diagnosis.run.exit_status is not None or diagnosis.run.duration_s is None
    if (
        diagnosis.verdict.state != "inconclusive"
        or ended
        or choose_candidates(diagnosis, session.allowed)[0]
    ):
        return diagnosis
    if session.left_s < 2 * LONGER * (diagnosis.run.duration_s or 0.0):
        return diagnosis
    session.listener.show_stage("inconclusive so far: watching the job longer")
    try:
        return look(session, LONGER)
    except TrialError:
        return diagnosis


def _try_next(session: TrialSession, progress: _Progress) -> bool:
    """Test the most promising fix; False if there is none, or no time."""
    ready, passed_over = _open_candidates(session, progress)
    progress.passed |= {one.candidate.fix: one for one in passed_over}
    if not ready:
        return False
    needed = LEAST_ARMS + LAST_ARMS * bool(session.kept_candidates)
    predicted = ready[0].predicted
    left_s = session.over_s if predicted and predicted.speedup >= PROMISING else session.left_s
    if left_s <= needed * session.arm_s:
        enough_s = _sufficient_budget(session, needed, len(ready))
        progress.enough_s = max(progress.enough_s or 0.0, enough_s)
        progress.stopped = _no_time(session, needed, enough_s)
        progress.passed |= {one.fix: PassedOver(one, progress.stopped) for one in ready}
        return False
    progress.amid = ready[0]
    candidate, searched, why = choose_candidate_value(session, ready[0])
    cures = verdict_fixes(progress.now)
    waits = any(one.fix in cures for one in ready[1:]) and ready[0].fix not in cures
    arms = make_arms(
        session, candidate, session.merged_edits(), session.merged_edits(candidate), waits=waits
    )
    if why:
        trial = TrialResult(candidate, reason=why)
    else:
        trial = run_ab_test(
            candidate, arms, list(session.alike_times()), session.alpha_budget.next_alpha
        )
    if trial.was_measured:
        session.alpha_budget.spend_alpha(proven=trial.is_proven)
    trial.searched = searched
    progress.tried |= {candidate_key(ready[0]), candidate_key(candidate)}
    session.judged.append(trial)
    progress.amid = None
    session.listener.show_trial_result(trial)
    if trial.hurried:
        pair_s = trial.pair_s * len(trial.bases)
        enough_s = max(
            _sufficient_budget(session, LEAST_ARMS, 1), _whole_minutes(session.spent_s + pair_s)
        )
        progress.enough_s = max(progress.enough_s or 0.0, enough_s)
    if trial.kept:
        _look_again(session, progress, trial)
    return True


def _open_candidates(
    session: TrialSession, progress: _Progress
) -> tuple[list[Candidate], list[PassedOver]]:
    ready, passed_over = choose_candidates(progress.now, session.allowed, progress.tried)
    return [one for one in ready if session.changes_anything(one)], passed_over


def _sufficient_budget(session: TrialSession, arms: int, fixes: int) -> float:
    """Budget for ``fixes`` further trials of ``arms`` arms each, in whole minutes. A larger budget
    also makes arms longer, including those run so far."""
    spent, enough = session.spent_s, 2 * session.budget_s
    while enough < MOST_S:
        each = session.arm_at(enough)
        needs = spent * max(each / session.arm_s, 1.0) + fixes * arms * each
        if needs <= enough:
            break
        enough = min(max(needs, GROWN * enough), MOST_S)
    return _whole_minutes(enough)


def _whole_minutes(seconds: float) -> float:
    return 60.0 * math.ceil(seconds / 60)


def _no_time(session: TrialSession, arms: int, enough_s: float) -> str:
    needs, left = arms * session.arm_s, max(session.left_s, 0.0)
    last = " with the final checks" if session.kept_candidates else ""
    return (
        f"a trial needs about {needs:.0f} s{last}, and {left:.0f} s of the budget are left "
        f"(--budget {enough_s / 60:.0f}m)"
    )


def _look_again(session: TrialSession, progress: _Progress, trial: TrialResult) -> None:
    session.listener.show_stage("watching the job with it")
    try:
        progress.now = progress.look(session, 1)
        progress.looks.append(progress.now)
    except UndiagnosedError as error:  # its arms were measured: the gain stands
        trial.notes.append(f"the job with it was not diagnosed again: {error.why or error.what}")
        progress.looks.append(progress.now)
    except TrialError as error:
        trial.kept, trial.reason = False, harm_reason(f"{error.what} {error.why}")
        session.listener.show_trial_result(trial)
    except KeyboardInterrupt:  # it is proven, but not diagnosed again
        progress.looks.append(progress.now)
        raise


def make_arms(
    session: TrialSession,
    candidate: Candidate,
    base: tuple[Edit, ...],
    treated: tuple[Edit, ...],
    *,
    waits: bool = False,
) -> ArmFactory:
    """Make arms with the edits of ``base`` and of ``treated``. If a fix of the verdict's cause
    ``waits``, time for its trial is reserved."""
    kept_back = LEAST_ARMS * waits
    return ArmFactory(
        base=lambda: session.run_trial_arm(base),
        treated=lambda: session.run_trial_arm(treated),
        other=lambda: session.run_trial_arm(base, seed=1),
        swayed=lambda seed, steps: session.run_numeric_arm(base, steps, sway=seed),
        drawn=lambda steps: session.run_numeric_arm(treated, steps, eager=True),
        affordable=lambda: session.can_afford(LEAST_ARMS - 1 + kept_back),
        pressing=lambda: (
            not (session.kept_candidates or waits) and session.over_s > PAIR * session.arm_s
        ),
        over=lambda seconds: session.over_s < seconds,
        say=lambda text: session.listener.show_stage(f"{candidate.fix}: {text}"),
        left=session.remaining_job,
        reaching=lambda steps, usual: session.run_to_step(base, steps, usual),
        lasting=lambda steps, usual: session.run_to_step(treated, steps, usual),
    )


def all_kept(session: TrialSession) -> Candidate:
    """Combine all kept fixes into one candidate."""
    consent = max((one.consent for one in session.kept_candidates), key=CONSENTS.index)
    return replace(
        session.kept_candidates[-1], fix="all", consent=consent, edits=session.merged_edits()
    )


def _judge_all_kept(session: TrialSession) -> TrialResult | None:
    while len(session.kept_candidates) > 1:
        fix = all_kept(session)
        arms = make_arms(session, fix, (), fix.edits)
        trial = run_ab_test(fix, arms, list(session.alike_times()))
        _confirm_all_kept(session, trial)
        sound = trial.rejection_kind != "harm" and (trial.check is None or trial.check.holds)
        if trial.kept or (trial.effect and trial.effect.speedup >= WORTH and sound):
            return trial
        last = [one for one in session.judged if one.kept][-1]
        last.kept = False
        last.reason = RejectionReason(
            "given up", f"given up: together with the others, {trial.rejection_text}"
        )
        session.listener.show_trial_result(last)
    if only := _single_judgement(session):
        _confirm_all_kept(session, only)
        if not only.kept:
            session.listener.show_trial_result(only)
    return _single_judgement(session)


def _confirm_all_kept(session: TrialSession, trial: TrialResult) -> None:
    """Use the remaining time, except for the final checks, to measure the total gain precisely."""
    arms = replace(
        make_arms(session, trial.candidate, (), session.merged_edits()),
        affordable=lambda: session.can_afford(PAIR + LAST_ARMS),
        say=lambda text: session.listener.show_stage(f"measuring the gain: {text}"),
    )
    confirm_gain(trial, arms, list(session.alike_times(trial)))


def _single_judgement(session: TrialSession) -> TrialResult | None:
    kept = [one for one in session.judged if one.kept]
    return kept[0] if len(kept) == 1 else None


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
