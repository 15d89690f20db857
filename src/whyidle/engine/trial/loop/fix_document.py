"""What the trials found, as the diagnosis document tells it, and as a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import msgspec

from whyidle.engine.trial.loop import optimize
from whyidle.engine.trial.loop.candidates import PassedOver
from whyidle.engine.trial.loop.remaining_findings import describe_remaining
from whyidle.engine.trial.loop.trial_result import TrialResult
from whyidle.engine.trial.statistics.background_load import common_load
from whyidle.engine.trial.statistics.peak_memory import peak_memory
from whyidle.engine.trial.statistics.per_sample_timing import batch_factor, batch_remarks
from whyidle.engine.trial.statistics.speedup import SpeedupEstimate
from whyidle.model.diagnosis import Diagnosis, FixedJob, Predicted, Trial
from whyidle.model.knobs import Setting
from whyidle.model.plan import FixPlan, PlannedFix, Speedup
from whyidle.version import __version__

LEFT = 5
"""of what remains so many are told"""


def make_document(
    found: optimize.Optimized, stored: str | None = None, price_per_hour: float | None = None
) -> Diagnosis:
    """The diagnosis of the job as it was, with all trials, and what it became, whose own diagnosis
    is ``stored`` under that id; ``price_per_hour`` is the whole job's."""
    amid = [] if found.amid is None else [PassedOver(found.amid, optimize.AMID)]
    trials = [*map(_trial_entry, found.judged), *map(_passed_over_entry, (*amid, *found.passed))]
    detail = found.before.detail
    if found.after is not None:
        detail = msgspec.structs.replace(
            detail, fixed=_fixed_job(found, found.after, stored, price_per_hour)
        )
    coverage = found.before.coverage
    coverage = msgspec.structs.replace(
        coverage, notes=[*_note_background_load(found), *coverage.notes]
    )
    since = _seen_since(found)
    return msgspec.structs.replace(
        found.before,
        trials=trials,
        detail=detail,
        coverage=coverage,
        abstentions=[one for one in found.before.abstentions if one.cause not in since],
    )


def _seen_since(found: optimize.Optimized) -> set[str]:
    """Causes that a later look has found: of these nobody is told that they could not be judged."""
    return {finding.cause for look in found.looks for finding in look.findings}


def _note_background_load(found: optimize.Optimized) -> list[str]:
    """That other programs may be why a gain could not be told, where one could not."""
    if not any(one.rejection_kind == "untold" for one in found.judged):
        return []
    told = common_load([ran for one in found.judged for ran in (*one.bases, *one.treats)])
    return [told] if told else []


def make_plan(found: optimize.Optimized, command: Sequence[str]) -> FixPlan:
    """What was kept, to run with."""
    return FixPlan(
        command=list(command),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        whyidle=__version__,
        fix=[fix for fix in _kept_fixes(found) if fix.edits],
    )


def _kept_fixes(found: optimize.Optimized) -> list[PlannedFix]:
    """Of a knob that was turned again later the last value stands, where it was set last; what it
    was is what it was in the script."""
    kept = [one for one in found.judged if one.kept]
    was = {edit.knob: edit.was for one in reversed(kept) for edit in one.candidate.edits}
    fixes: list[PlannedFix] = []
    taken: set[str] = set()
    for one in reversed(kept):
        own = [edit for edit in one.candidate.edits if edit.knob not in taken]
        fixes.append(_planned_fix(one, {edit.knob: edit.value for edit in own}, was))
        taken |= {edit.knob for edit in own}
    return fixes[::-1]


def _planned_fix(
    one: TrialResult, edits: Mapping[str, Setting | None], was: Mapping[str, Setting | None]
) -> PlannedFix:
    candidate = one.candidate
    return PlannedFix(
        fix=candidate.fix,
        consent=candidate.consent,
        summary=candidate.summary,
        predicted=_optional_speedup(candidate.predicted),
        measured=_optional_speedup(one.effect),
        edits={knob: value for knob, value in edits.items() if value is not None},
        was={knob: before for knob in edits if (before := was[knob]) is not None},
    )


def _optional_speedup(gain: SpeedupEstimate | Predicted | None) -> Speedup | None:
    if gain is None or not math.isfinite(gain.high):
        return None
    numbers = (round(number, 4) for number in (gain.speedup, gain.low, gain.high))
    times, low, high = numbers
    return Speedup(times=times, low=low, high=high)


def _trial_entry(one: TrialResult) -> Trial:
    candidate, gain = one.candidate, one.effect
    before, after = peak_memory(one.bases), peak_memory(one.treats)
    return Trial(
        fix=candidate.fix,
        consent=candidate.consent,
        baseline=_mean_time(one.base_s),
        treated=_mean_time(one.treated_s),
        speedup=gain.speedup if gain else None,
        low=gain.low if gain and gain.has_interval else None,
        high=gain.high if gain and gain.has_interval else None,
        predicted=candidate.predicted.speedup if candidate.predicted else None,
        numerics=one.check.told if one.check else None,
        kept=one.kept,
        why=one.rejection_text or ("faster, and the numbers hold" if one.kept else ""),
        promised=candidate.predicted,
        cause=candidate.cause,
        summary=candidate.summary,
        edits=[msgspec.structs.replace(edit, among=()) for edit in candidate.edits],
        pairs=gain.pairs if gain else 0,
        startup_s=one.once.seconds if one.once else None,
        pays_after_steps=_steps_to_pay(one),
        notes=[*batch_remarks(candidate), *one.notes],
        searched=one.searched,
        untold=one.rejection_kind == "untold",
        harmful=one.rejection_kind == "harm",
        tried=one.rejection_kind != "declined",
        host_bytes_before=before.host,
        host_bytes=after.host,
        device_bytes_before=before.device,
        device_bytes=after.device,
    )


def _steps_to_pay(one: TrialResult) -> float | None:
    after = one.once.pays_after if one.once else math.inf
    return after if math.isfinite(after) else None


def _mean_time(times: Sequence[float]) -> float | None:
    return sum(times) / len(times) if times else None


def _passed_over_entry(one: PassedOver) -> Trial:
    candidate = one.candidate
    return Trial(
        fix=candidate.fix,
        consent=candidate.consent,
        baseline=None,
        treated=None,
        speedup=None,
        low=None,
        high=None,
        predicted=candidate.predicted.speedup if candidate.predicted else None,
        numerics=None,
        kept=False,
        why=one.why,
        promised=candidate.predicted,
        cause=candidate.cause,
        summary=candidate.summary,
        edits=list(candidate.edits),
        tried=one.why == optimize.AMID,
        interrupted=one.why in (optimize.AMID, optimize.STOPPED),
    )


def _energy_per_step(found: optimize.Optimized, step: float | None) -> float | None:
    """Joules of as many samples as a step had."""
    return None if step is None else step / max(map(batch_factor, found.kept), default=1.0)


def _fixed_job(
    found: optimize.Optimized, after: Diagnosis, stored: str | None, price_per_hour: float | None
) -> FixedJob:
    whole = found.whole.effect if found.whole else None
    speedup = whole.speedup if whole else None
    rate = found.before.steps.samples_per_s
    first, _, _ = after.verdict.headline.partition(". ")  # what follows is a finding, told below
    left = [first] if after.verdict.state == "starved" else []
    left += describe_remaining(found, after)
    return FixedJob(
        run=stored,
        attribution=after.attribution,
        state=after.verdict.state,
        headline=after.verdict.headline,
        speedup=speedup,
        low=whole.low if whole and whole.has_interval else None,
        high=whole.high if whole and whole.has_interval else None,
        left=left[:LEFT],
        samples_per_s_before=rate,
        samples_per_s=rate * speedup if rate and speedup else None,
        energy_j_per_step_before=found.before.utilization.energy_j_per_step,
        energy_j_per_step=_energy_per_step(found, after.utilization.energy_j_per_step),
        price_per_hour=price_per_hour,
    )
