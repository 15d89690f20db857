"""One fix against the job without it: pairs in turn, in turned order, until they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import msgspec

from whyidle.engine.trial.arms import error_line
from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.page_cache import run_warm
from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.loop.acceptance import decide_acceptance, is_proven_gain
from whyidle.engine.trial.loop.candidates import WORTH, Candidate
from whyidle.engine.trial.loop.trial_result import (
    FEWEST,
    MOST,
    ArmFactory,
    RejectionReason,
    TrialResult,
    declined_reason,
    harm_reason,
)
from whyidle.engine.trial.statistics.alpha_spending import ALONE, alpha_share
from whyidle.engine.trial.statistics.background_load import compare_load
from whyidle.engine.trial.statistics.per_sample_timing import (
    changes_batch,
    explain_incomparable,
    work_s,
)
from whyidle.engine.trial.statistics.speedup import (
    common_steps,
    compiled_late,
    estimate_speedup,
    startup_s,
    step_s,
)
from whyidle.engine.trial.statistics.startup_cost import startup_cost
from whyidle.model.diagnosis import Edit

RUIN = 0.1
"""a first pair that is slower than this needs no second. Less may be the machine's, and nobody can
tell from one pair: fixes that were told 1.07 and 1.27 were 0.70 and 0.49 times as fast in a first
pair beside other people's programs, and 1.12 and 1.27 in full. A second pair costs two arms, and of
two that agree it ends (`HOPELESS`)"""
PAST = 2
"""steps beyond the last one that was made: an arm is stopped within a step's end, and what comes
behind that still belongs to it"""
PROMISING = 1.25
"""times as fast by its middle: with no time left and nothing kept, another pair is worth more than
the rest of the budget. Two pairs beside other programs told 0.64 to 11 of what is 2.3 by hand"""
HOPELESS = 0.1
"""a chance this small of being worth something ends it as well: what brings nothing then takes 4.5
to 5.2 of six pairs, 5.8 with a chance of 0.005, and a gain of a twentieth or more is kept as often
(simulated, runs that scatter by 3 to 10 %)"""


def run_ab_test(
    candidate: Candidate, bench: ArmFactory, alike: Sequence[Sequence[float]], chance: float = ALONE
) -> TrialResult:
    """Try it; ``chance`` is what it may have of being kept although it brings nothing."""
    found = TrialResult(candidate)
    last = False
    while not last:
        found.reason = run_pair(found, bench)
        if found.reason:
            if found.reason.kind == "declined":
                found.effect = None
            return found
        last = _is_settled(found, bench, (alike, chance))
    decide_acceptance(found, bench, found.bases, found.treats)
    found.candidate = replace(candidate, edits=_applied_edits(candidate, found.treats))
    return found


def _is_settled(
    found: TrialResult, bench: ArmFactory, asked: tuple[Sequence[Sequence[float]], float]
) -> bool:
    """What the times say by now; whether more pairs are not to be had, or would change nothing."""
    alike, chance = asked
    pairs = len(found.bases)
    if pairs < FEWEST:
        found.effect = estimate_speedup(found.base_s, found.treated_s, alike, chance)
        ruin = found.effect.speedup < RUIN
        found.hurried = not ruin and bench.over(found.pair_s)
        return ruin or found.hurried
    middle = estimate_speedup(found.base_s, found.treated_s, alike, HOPELESS)
    ahead = middle.speedup >= PROMISING and bench.pressing()
    late = pairs < MOST and (not (bench.affordable() or ahead) or bench.over(found.pair_s))
    last = pairs >= MOST or late
    part = alpha_share(chance, pairs - FEWEST + 1, last=last)
    gain = found.effect = estimate_speedup(found.base_s, found.treated_s, alike, part)
    hopeless = middle.high < WORTH and not compare_load(found.bases, found.treats)
    found.hurried = late and not hopeless and not is_proven_gain(gain)
    return last or hopeless or is_proven_gain(gain)


def run_pair(found: TrialResult, bench: ArmFactory) -> RejectionReason | None:
    """Run both arms once more, in turned order every other time, and take their times; why it ends
    here, if it does. The first arm of all has the fix: one that declines costs no more than it."""
    count = len(found.bases)
    bench.say(f"pair {count + 1}, of {MOST} at most")
    arms = [(bench.treated, found.treats), (bench.base, found.bases)]
    for run, into in arms if count % 2 == 0 else reversed(arms):
        ran, told = run_warm(run, found.notes)
        if told:
            found.notes.append(told)
        if into is found.bases and not ran.is_comparable:
            return _fails_without_fix(ran)
        if into is found.treats and (why := failure_reason(ran, found.candidate)):
            return _explain_failure(found, bench, ran, why)
        into.append(ran)
    why = explain_incomparable(found.candidate, found.bases[-1], found.treats[-1])
    if not why:
        _record_times(found, _first_rank_reports(found.bases), _first_rank_reports(found.treats))
    return why


def _explain_failure(
    found: TrialResult, bench: ArmFactory, ran: ArmResult, why: RejectionReason
) -> RejectionReason:
    """Why it ends where the arm with the fix has failed. The job may do so by itself, and later in
    time than a slower arm without the fix runs: it is run as many steps then."""
    if why.kind != "harm":
        return why
    base = found.bases[-1] if found.bases else bench.base()
    if alone := _fails_without_fix(base):
        return alone
    usual, steps = (len(one.told.marks) if one.told else 0 for one in (base, ran))
    if ran.ending != "crashed" or steps < usual:
        return why
    bench.say(f"the job without it, to step {steps + PAST} as well")
    further = bench.reaching(steps + PAST, usual)
    if further is None:
        return replace(why, text=f"{why.text}; without it the job was not run to step {steps}")
    return (_fails_without_fix(further) if further.ending == "crashed" else None) or why


def _fails_without_fix(ran: ArmResult) -> RejectionReason | None:
    """That the job fails without the fix, so that nothing is known of it; None where it does
    not."""
    return (
        None
        if ran.is_comparable
        else RejectionReason("unjudged", f"the job without it {_describe_end(ran)}: not judged")
    )


def _first_rank_reports(arms: Sequence[ArmResult]) -> list[ProcessReport]:
    return [ran.told for ran in arms if ran.told is not None]


def _record_times(
    found: TrialResult, base: Sequence[ProcessReport], treated: Sequence[ProcessReport]
) -> None:
    steps, others = common_steps(base, treated)
    whole = not any(
        map(compiled_late, treated)
    )  # what the job compiled without it, the fix takes away
    found.base_s = [step_s(told, steps, whole=whole) for told in base]
    found.treated_s = [step_s(told, others, whole=whole) for told in treated]
    if changes_batch(found.candidate):
        found.base_s, found.treated_s = work_s(base, treated)
    found.once = startup_cost(
        [startup_s(told, steps, whole=whole) for told in base],
        [startup_s(told, others, whole=whole) for told in treated],
        (fmean(found.base_s), fmean(found.treated_s)),
    )


def failure_reason(ran: ArmResult, candidate: Candidate) -> RejectionReason | None:
    """Why the treated arm cannot be compared; None where it can."""
    if ran.ending == "full":
        return RejectionReason("unjudged", f"with it the job {_describe_end(ran)}: not judged")
    if not ran.is_comparable:
        return harm_reason(f"with it the job {_describe_end(ran)}")
    if not _applied_edits(candidate, [ran]):
        own = [ran.declined[edit.knob] for edit in candidate.edits if edit.knob in ran.declined]
        return declined_reason("; ".join(dict.fromkeys(own)) or "nothing in the job took it up")
    return None


def _applied_edits(candidate: Candidate, treats: Sequence[ArmResult]) -> tuple[Edit, ...]:
    """Its edits that took hold in every arm; of the environment's that cannot be told."""
    return tuple(
        _with_multiplied(edit, treats)
        for edit in candidate.edits
        if edit.knob.startswith("env.") or all(ran.applied.get(edit.knob) for ran in treats)
    )


def _with_multiplied(edit: Edit, treats: Sequence[ArmResult]) -> Edit:
    """With what it found, where it multiplies that: so that nothing else is ever multiplied by it,
    least of all what is so many times as large by then."""
    found = sorted({number for ran in treats for number in ran.multiplied.get(edit.knob, ())})
    return msgspec.structs.replace(edit, was=", ".join(map(str, found))) if found else edit


def _describe_end(ran: ArmResult) -> str:
    if ran.ending == "full":
        return f"was ended, as {ran.full} (TMPDIR names another place)"
    line = error_line.last_error_line(ran.said)
    last = f" ({line[:160]})" if line and ran.ending == "crashed" else ""
    words = {"crashed": "crashed", "hung": "hung", "silent": "made no steps"}
    if ran.lost:
        last = f" (rank {ran.lost[0]} died){last}"
    memory = any(word in ran.said for word in ("OutOfMemoryError", "MemoryError", "oom-kill"))
    return "ran out of memory" if memory else f"{words.get(ran.ending, ran.ending)}{last}"
