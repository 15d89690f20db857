"""Tests one fix: runs pairs of arms in alternating order until the result is clear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from whyidle.fix.arms import error_line
from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import FEWEST as FEWEST_STEPS
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.arms.process_tree import fetched_bytes
from whyidle.fix.loop.acceptance import decide_acceptance, is_proven_gain
from whyidle.fix.loop.candidates import WORTH, Candidate
from whyidle.fix.loop.trial_result import (
    FEWEST,
    MOST,
    ArmFactory,
    RejectionReason,
    TrialResult,
    declined_reason,
    harm_reason,
)
from whyidle.fix.statistics.alpha_spending import ALONE, alpha_share
from whyidle.fix.statistics.background_load import compare_load
from whyidle.fix.statistics.speedup import (
    common_steps,
    compiled_late,
    estimate_speedup,
    startup_s,
    step_s,
)
from whyidle.fix.statistics.startup_cost import startup_cost
from whyidle.model.diagnosis import Edit

COLD_BYTES_S = 1e6
"""rate below which storage hardly delays steps; a hard disk reads 10 kB files no faster"""
LESS = 0.5  # the second run replaces the first if it reads less than this share of it
STREAMS = "every run reads its files from storage, not from the page cache"


def run_warm(run: Callable[[], ArmResult], notes: Sequence[str]) -> tuple[ArmResult, str]:
    """Run an arm with a warm page cache; returns a note too. ``notes`` are the earlier ones."""
    result = run()
    first = fetch_rate(result)
    if first < COLD_BYTES_S or STREAMS in notes or not result.is_comparable:
        return result, ""
    again = run()
    if not again.is_comparable or fetch_rate(again) >= LESS * first:
        return again, STREAMS
    return again, (
        f"one run read its files from storage ({first / 1e6:.0f} MB/s) and is not counted: times "
        "are with a warm page cache"
    )


def fetch_rate(result: ArmResult) -> float:
    """Bytes read from storage per second of its steps."""
    if result.report is None or len(result.report.marks) < 2:
        return 0.0
    begin, end = result.report.marks[0], result.report.marks[-1]
    return fetched_bytes(result.samples, begin, end) / max((end - begin) / 1e9, 1e-3)


RUIN = 0.1
"""speed-up of a first pair below which there is no second. A single pair is unreliable under
background load: fixes with speed-ups of 1.12 and 1.27 showed 0.70 and 0.49 in a first pair"""
PAST = 2  # further steps of a repeated arm, because an arm may be stopped within a step
PROMISING = 1.25
"""estimated speed-up for which one more pair may exceed the budget if nothing has been kept"""
HOPELESS = 0.1
"""one-sided alpha of stopping for futility: a fix without effect then takes 4.5 to 5.2 of six
pairs (5.8 with 0.005), and gains of a twentieth or more are kept as often (simulated, scatter of 3
to 10 %)"""


def run_ab_test(
    candidate: Candidate, bench: ArmFactory, alike: Sequence[Sequence[float]], chance: float = ALONE
) -> TrialResult:
    """Test a candidate. ``alike`` are times of other groups of equal arms, for the scatter;
    ``chance`` is the one-sided probability of keeping a fix without effect."""
    trial = TrialResult(candidate)
    last = False
    while not last:
        trial.reason = run_pair(trial, bench)
        if trial.reason:
            if trial.reason.kind == "declined":
                trial.effect = None
            return trial
        last = _is_settled(trial, bench, (alike, chance))
    decide_acceptance(trial, bench, trial.bases, trial.treats)
    trial.candidate = replace(candidate, edits=_applied_edits(candidate, trial.treats))
    return trial


def _is_settled(
    trial: TrialResult, bench: ArmFactory, settings: tuple[Sequence[Sequence[float]], float]
) -> bool:
    """Update the estimate; return whether more pairs are impossible or would change nothing."""
    alike, chance = settings
    pairs = len(trial.bases)
    if pairs < FEWEST:
        trial.effect = estimate_speedup(trial.base_s, trial.treated_s, alike, chance)
        ruin = trial.effect.speedup < RUIN
        trial.hurried = not ruin and bench.over(trial.pair_s)
        return ruin or trial.hurried
    middle = estimate_speedup(trial.base_s, trial.treated_s, alike, HOPELESS)
    promising = middle.speedup >= PROMISING and bench.pressing()
    late = pairs < MOST and (not (bench.affordable() or promising) or bench.over(trial.pair_s))
    last = pairs >= MOST or late
    part = alpha_share(chance, pairs - FEWEST + 1, last=last)
    gain = trial.effect = estimate_speedup(trial.base_s, trial.treated_s, alike, part)
    hopeless = middle.high < WORTH and not compare_load(trial.bases, trial.treats)
    trial.hurried = late and not hopeless and not is_proven_gain(gain)
    return last or hopeless or is_proven_gain(gain)


def run_pair(trial: TrialResult, bench: ArmFactory) -> RejectionReason | None:
    """Run a pair of arms in alternating order and record its times; return why the test ends, or
    None. The very first arm has the fix, so that a declined fix costs only one arm."""
    count = len(trial.bases)
    bench.say(f"pair {count + 1} of at most {MOST}")
    arms = [(bench.treated, trial.treats), (bench.base, trial.bases)]
    for run, into in arms if count % 2 == 0 else reversed(arms):
        result, note = run_warm(run, trial.notes)
        if note:
            trial.notes.append(note)
        if into is trial.bases and not result.is_comparable:
            return _fails_without_fix(result)
        if into is trial.treats and (why := failure_reason(result, trial.candidate)):
            return _explain_failure(trial, bench, result, why)
        into.append(result)
    _record_times(trial, _first_rank_reports(trial.bases), _first_rank_reports(trial.treats))
    return None


def _explain_failure(
    trial: TrialResult, bench: ArmFactory, result: ArmResult, why: RejectionReason
) -> RejectionReason:
    """Explain why the arm with the fix failed. The job may fail at that step without the fix too,
    so it is run as far if the usual arm ended earlier."""
    if why.kind != "harm":
        return why
    base = trial.bases[-1] if trial.bases else bench.base()
    if alone := _fails_without_fix(base):
        return alone
    usual_steps, steps = _step_count(base), _step_count(result)
    if result.ending != "crashed" or steps < usual_steps:
        return why
    bench.say(f"the job without it, up to step {steps + PAST}")
    further = bench.reaching(steps + PAST, usual_steps)
    if further is None:
        return replace(why, text=f"{why.text}; the job was not run up to step {steps} without it")
    return (_fails_without_fix(further) if further.ending == "crashed" else None) or why


def _fails_without_fix(result: ArmResult) -> RejectionReason | None:
    if result.is_comparable:
        return None
    return RejectionReason("unjudged", f"without it, the job {_describe_end(result)}: not tested")


def _first_rank_reports(arms: Sequence[ArmResult]) -> list[ProcessReport]:
    return [result.report for result in arms if result.report is not None]


def _record_times(
    trial: TrialResult, base: Sequence[ProcessReport], treated: Sequence[ProcessReport]
) -> None:
    steps, treated_steps = common_steps(base, treated)
    with_compilation = not any(
        map(compiled_late, treated)
    )  # a fix that removes recompilations must be credited with them
    trial.base_s = [step_s(report, steps, whole=with_compilation) for report in base]
    trial.treated_s = [step_s(report, treated_steps, whole=with_compilation) for report in treated]
    trial.once = startup_cost(
        [startup_s(report, steps, whole=with_compilation) for report in base],
        [startup_s(report, treated_steps, whole=with_compilation) for report in treated],
        (fmean(trial.base_s), fmean(trial.treated_s)),
    )


def failure_reason(result: ArmResult, candidate: Candidate) -> RejectionReason | None:
    """Explain why the treated arm cannot be compared; None if it can."""
    if result.ending == "full" or _is_too_short(result):
        return RejectionReason("unjudged", f"with it, the job {_describe_end(result)}: not tested")
    if not result.is_comparable:
        return harm_reason(f"with it, the job {_describe_end(result)}")
    if not _applied_edits(candidate, [result]):
        reasons = [
            result.declined[edit.knob] for edit in candidate.edits if edit.knob in result.declined
        ]
        return declined_reason("; ".join(dict.fromkeys(reasons)) or "it took no effect in this job")
    return None


def _applied_edits(candidate: Candidate, treats: Sequence[ArmResult]) -> tuple[Edit, ...]:
    return tuple(
        edit
        for edit in candidate.edits
        if edit.knob.startswith("env.") or all(result.applied.get(edit.knob) for result in treats)
    )


def _is_too_short(result: ArmResult) -> bool:
    """Whether it ended well with too few steps to compare, as after a few large batches."""
    return result.ending == "finished" and 0 < _step_count(result) < FEWEST_STEPS


def _step_count(result: ArmResult) -> int:
    return len(result.report.marks) if result.report else 0


def _describe_end(result: ArmResult) -> str:
    if _is_too_short(result):
        return f"has {_step_count(result)} steps, and a comparison needs {FEWEST_STEPS}"
    if result.ending == "full":
        return f"was stopped because {result.full} (to use another disk, set TMPDIR)"
    line = error_line.last_error_line(result.output_end)
    detail = f" ({line[:160]})" if line and result.ending == "crashed" else ""
    words = {"crashed": "crashed", "hung": "hung", "silent": "took no steps"}
    if result.lost:
        detail = f" (rank {result.lost[0]} died){detail}"
    memory = any(
        word in result.output_end for word in ("OutOfMemoryError", "MemoryError", "oom-kill")
    )
    return "ran out of memory" if memory else f"{words.get(result.ending, result.ending)}{detail}"
