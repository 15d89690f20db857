"""Writes the results of trials into the diagnosis document and into a plan."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import compress
from statistics import fmean
from typing import NamedTuple

import msgspec

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop import optimize
from whyidle.fix.loop.candidates import SAFE, PassedOver, choose_candidates
from whyidle.fix.loop.trial_result import TrialResult
from whyidle.fix.statistics.background_load import common_load
from whyidle.fix.statistics.speedup import SpeedupEstimate
from whyidle.model.diagnosis import Diagnosis, Finding, FixedJob, Predicted, Trial
from whyidle.model.knobs import Setting
from whyidle.model.number_text import format_duration
from whyidle.model.plan import FixPlan, PlannedFix, Speedup
from whyidle.version import __version__

ALIKE = 0.25
"""difference of step times that is never questioned: turbo clocks, the recording of operators and
the first reads from the page cache make as much on an ordinary machine"""
PARTS = 4
"""consecutive parts of the watched steps whose means show its spread; single steps of a job that
loads ahead vary many times over, its mean does not"""


def explain_disagreement(watched: Diagnosis, base_s: Sequence[float]) -> str:
    """Explain in a sentence without its full stop that the untreated arms, of ``base_s`` seconds
    per step each, do not repeat the ``watched`` run; empty if they do, or if either is unknown."""
    watched_s = watched.steps.mean_s
    if not watched_s or not base_s:
        return ""
    trial_s = fmean(base_s)
    ratio = max(watched_s / trial_s, trial_s / watched_s)
    if ratio <= 1 + max(ALIKE, _spread(watched)):
        return ""
    return (
        f"the unchanged job took {format_duration(trial_s)} a step in the trials and "
        f"{format_duration(watched_s)} when it was watched; the reason is unknown, and so is the "
        f"gain"
    )


def _spread(watched: Diagnosis) -> float:
    """Relative difference between the slowest and the fastest part of the watched steps."""
    steps_s = list(compress(watched.detail.step_times_s, watched.detail.steady))
    size = len(steps_s) // PARTS
    if not size:
        return 0.0
    means = [fmean(steps_s[part * size : (part + 1) * size]) for part in range(PARTS)]
    return max(means) / min(means) - 1


class PeakMemory(NamedTuple):
    """Peak memory, bytes; None if a process did not report it."""

    host: int | None
    """resident memory of all training processes, without loader workers, which share pages"""
    device: int | None  # tensors on the fullest device


def peak_memory(arms: Sequence[ArmResult]) -> PeakMemory:
    """The highest peak of these arms."""
    reports_by_arm = [_process_reports(arm) for arm in arms]
    hosts = _reports_by_arm([one.memory_bytes for one in reports] for reports in reports_by_arm)
    devices = _reports_by_arm([one.device_peak for one in reports] for reports in reports_by_arm)
    return PeakMemory(
        max(map(sum, hosts)) if hosts else None, max(map(max, devices)) if devices else None
    )


def _process_reports(arm: ArmResult) -> Sequence[ProcessReport]:
    return [*arm.ranks.values()] or ([] if arm.report is None else [arm.report])


def _reports_by_arm(arms: Iterable[Sequence[int | None]]) -> list[list[int]]:
    arms_list = list(arms)
    known = [[one for one in values if one is not None] for values in arms_list]
    whole = all(
        values and len(values) == len(numbers)
        for values, numbers in zip(arms_list, known, strict=True)
    )
    return known if whole else []


def describe_remaining(optimized: optimize.Optimized, after: Diagnosis) -> list[str]:
    """One sentence per finding above ``info``."""
    return [
        f"{_describe_cost(finding)}{_describe_remedy(optimized, after, finding)}"
        for finding in after.findings
        if finding.severity != "info"
    ]


def _describe_cost(finding: Finding) -> str:
    where = next((f"{at.file}:{at.line}, " for at in finding.where if at.file and at.line), "")
    most = "" if finding.exceeds_bucket else " at most"
    return f"{finding.headline} ({finding.cause}, {where}{finding.lost.high:.0%} of the step{most})"


def _describe_remedy(optimized: optimize.Optimized, after: Diagnosis, finding: Finding) -> str:
    """The first untried fix, or else the first fix, and why it was not applied."""
    if not finding.fixes:
        return ""
    why = {one.candidate.fix: f"tried, not kept: {one.rejection_text}" for one in optimized.judged}
    why |= {one.candidate.fix: "kept, but not sufficient" for one in optimized.judged if one.kept}
    untried = [fix for fix in finding.fixes if fix.fix not in why]
    fix = (untried or finding.fixes)[0]
    _, consent_required = choose_candidates(after, SAFE)
    passed = {one.candidate.fix: one.why for one in (*consent_required, *optimized.passed)}
    reason = (passed | why).get(fix.fix, "")
    summary = textwrap.shorten(fix.summary, 140, placeholder=" ...")
    return f": {summary}{reason and f' ({reason})'}"


def make_document(
    optimized: optimize.Optimized, stored: str | None = None, price_per_hour: float | None = None
) -> Diagnosis:
    """Add the trials and the fixed job (stored as ``stored``) to the first diagnosis.
    ``price_per_hour`` is that of the whole job."""
    amid = (
        []
        if optimized.interrupted_fix is None
        else [PassedOver(optimized.interrupted_fix, optimize.AMID)]
    )
    trials = [
        *map(_trial_entry, optimized.judged),
        *map(_passed_over_entry, (*amid, *optimized.passed)),
    ]
    detail = optimized.before.detail
    if optimized.after is not None:
        detail = msgspec.structs.replace(
            detail, fixed=_fixed_job(optimized, optimized.after, stored, price_per_hour)
        )
    coverage = optimized.before.coverage
    coverage = msgspec.structs.replace(
        coverage, notes=[*_note_background_load(optimized), *coverage.notes]
    )
    since = {finding.cause for look in optimized.diagnoses for finding in look.findings}
    return msgspec.structs.replace(
        optimized.before,
        trials=trials,
        detail=detail,
        coverage=coverage,
        abstentions=[one for one in optimized.before.abstentions if one.cause not in since],
    )


def _note_background_load(optimized: optimize.Optimized) -> list[str]:
    if not any(trial.rejection_kind == "untold" for trial in optimized.judged):
        return []
    note = common_load(
        [result for trial in optimized.judged for result in (*trial.bases, *trial.treats)]
    )
    return [note] if note else []


def make_plan(optimized: optimize.Optimized, command: Sequence[str]) -> FixPlan:
    """Make a plan of the kept fixes."""
    return FixPlan(
        command=list(command),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        whyidle=__version__,
        fix=[fix for fix in _kept_fixes(optimized) if fix.edits],
    )


def _kept_fixes(optimized: optimize.Optimized) -> list[PlannedFix]:
    """Kept fixes; of each knob the last value, as ``was`` the value in the script, and the gain
    from that one to the last."""
    kept = [one for one in optimized.judged if one.kept]
    was = {edit.knob: edit.was for one in reversed(kept) for edit in one.candidate.edits}
    fixes: list[PlannedFix] = []
    taken: set[str] = set()
    for number, one in reversed(list(enumerate(kept))):
        own = [edit for edit in one.candidate.edits if edit.knob not in taken]
        if own:
            fixes.append(_planned_fix(one, {edit.knob: edit.value for edit in own}, was))
            knobs = {edit.knob for edit in one.candidate.edits}
            before = [t for t in kept[:number] if {e.knob for e in t.candidate.edits} == knobs]
            fixes[-1] = _with_earlier(fixes[-1], before)
        taken |= {edit.knob for edit in own}
    return fixes[::-1]


def _with_earlier(fix: PlannedFix, before: Sequence[TrialResult]) -> PlannedFix:
    """The fix with the gains of earlier values; each was measured against the job with those before
    it, so that gains multiply. The prediction is that of the first."""
    gains = [fix.measured, *(_optional_speedup(one.effect) for one in before)]
    known = [gain for gain in gains if gain is not None]
    if not before or len(known) < len(gains):
        return fix
    product = Speedup(
        times=round(math.prod(gain.times for gain in known), 4),
        low=round(math.prod(gain.low for gain in known), 4),
        high=round(math.prod(gain.high for gain in known), 4),
    )
    first = _optional_speedup(before[0].candidate.predicted)
    return msgspec.structs.replace(fix, measured=product, predicted=first)


def _planned_fix(
    trial: TrialResult, edits: Mapping[str, Setting | None], was: Mapping[str, Setting | None]
) -> PlannedFix:
    candidate = trial.candidate
    return PlannedFix(
        fix=candidate.fix,
        consent=candidate.consent,
        summary=candidate.summary,
        predicted=_optional_speedup(candidate.predicted),
        measured=_optional_speedup(trial.effect),
        edits={knob: value for knob, value in edits.items() if value is not None},
        was={knob: before for knob in edits if (before := was[knob]) is not None},
    )


def _optional_speedup(gain: SpeedupEstimate | Predicted | None) -> Speedup | None:
    if gain is None or not math.isfinite(gain.high):
        return None
    times, low, high = (round(number, 4) for number in (gain.speedup, gain.low, gain.high))
    return Speedup(times=times, low=low, high=high)


def _trial_entry(trial: TrialResult) -> Trial:
    candidate, gain = trial.candidate, trial.effect
    before, after = peak_memory(trial.bases), peak_memory(trial.treats)
    pays_after = trial.once.pays_after if trial.once else math.inf
    return Trial(
        fix=candidate.fix, consent=candidate.consent,
        baseline=_mean_time(trial.base_s), treated=_mean_time(trial.treated_s),
        speedup=gain.speedup if gain else None,
        low=gain.low if gain and gain.has_interval else None,
        high=gain.high if gain and gain.has_interval else None,
        predicted=candidate.predicted.speedup if candidate.predicted else None,
        numerics=trial.check.explanation if trial.check else None,
        kept=trial.kept,
        why=trial.rejection_text or ("faster, with equivalent losses" if trial.kept else ""),
        promised=candidate.predicted, cause=candidate.cause, summary=candidate.summary,
        edits=[msgspec.structs.replace(edit, among=()) for edit in candidate.edits],
        pairs=gain.pairs if gain else 0,
        startup_s=trial.once.seconds if trial.once else None,
        pays_after_steps=pays_after if math.isfinite(pays_after) else None,
        notes=trial.notes, searched=trial.searched, untold=trial.rejection_kind == "untold",
        harmful=trial.rejection_kind == "harm", tried=trial.rejection_kind != "declined",
        host_bytes_before=before.host, host_bytes=after.host,
        device_bytes_before=before.device, device_bytes=after.device,
    )  # fmt: skip


def _mean_time(times: Sequence[float]) -> float | None:
    return sum(times) / len(times) if times else None


def _passed_over_entry(one: PassedOver) -> Trial:
    candidate = one.candidate
    return Trial(
        fix=candidate.fix, consent=candidate.consent, kept=False, why=one.why, numerics=None,
        baseline=None, treated=None, speedup=None, low=None, high=None,
        predicted=candidate.predicted.speedup if candidate.predicted else None,
        promised=candidate.predicted, cause=candidate.cause, summary=candidate.summary,
        edits=list(candidate.edits), tried=one.why == optimize.AMID,
        interrupted=one.why in (optimize.AMID, optimize.STOPPED),
    )  # fmt: skip


def _fixed_job(
    optimized: optimize.Optimized,
    after: Diagnosis,
    stored: str | None,
    price_per_hour: float | None,
) -> FixedJob:
    trial = optimized.combined_trial
    doubt = explain_disagreement(optimized.before, trial.base_s) if trial else ""
    whole = trial.effect if trial and not doubt else None
    speedup = whole.speedup if whole else None
    rate = optimized.before.steps.samples_per_s
    energy = after.utilization.energy_j_per_step
    first, _, _ = after.verdict.headline.partition(". ")  # the rest is a finding, listed below
    left = [first] if after.verdict.state == "starved" else []
    left += describe_remaining(optimized, after)
    return FixedJob(
        run=stored,
        attribution=after.attribution,
        state=after.verdict.state,
        headline=after.verdict.headline,
        speedup=speedup,
        low=whole.low if whole and whole.has_interval else None,
        high=whole.high if whole and whole.has_interval else None,
        left=left[:5],
        samples_per_s_before=rate,
        samples_per_s=rate * speedup if rate and speedup else None,
        energy_j_per_step_before=optimized.before.utilization.energy_j_per_step,
        energy_j_per_step=energy,
        price_per_hour=price_per_hour,
        doubt=doubt,
        startup_share=_startup_share(trial) if trial else None,
    )


def _startup_share(trial: TrialResult) -> float | None:
    if trial.once is None or not trial.remaining_steps or not trial.base_s:
        return None
    return trial.once.seconds / (trial.remaining_steps * fmean(trial.base_s))
