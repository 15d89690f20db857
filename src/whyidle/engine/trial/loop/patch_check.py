"""The patch of what was kept, run once before it is handed over; where that was slower than the
trials promise, twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from whyidle.engine.patching.source_patch import KeptFix, SourcePatch, make_patch
from whyidle.engine.recording.plan_channel import merge_lines
from whyidle.engine.trial.arms import error_line
from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.loaded_modules import explain_unloaded, found_as
from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.loop.optimize import Optimized, all_kept, make_arms
from whyidle.engine.trial.loop.trial_session import TrialSession
from whyidle.engine.trial.statistics.per_sample_timing import changes_batch, work_s
from whyidle.engine.trial.statistics.rank_equivalence import check_all_ranks
from whyidle.engine.trial.statistics.speedup import SpeedupEstimate, step_s

AGAIN = 2
"""runs that a second look at the patched files takes"""
REFUSED = "No patch is handed over: "
STUMBLED = (
    "The patch was not run to its end: the job removes or makes anew a large folder, which is a "
    "link where the patched files are"
)


@dataclass(frozen=True, slots=True)
class PatchCheck:
    """A patch, how many times as fast the patched files ran (None: not run), and a sentence about
    it. ``good`` is whether it may be handed over."""

    patch: SourcePatch
    speedup: float | None
    told: str
    good: bool


def hand_over(healing: TrialSession, found: Optimized, folder: Path) -> PatchCheck | None:
    """Write what was kept into copies of the user's files, and run them; None where nothing was
    kept. ``folder`` is where the command starts."""
    if not found.kept:
        return None
    looks = reversed((found.before, *found.looks))  # of a cause that shows twice the first counts
    causes = {finding.cause: finding.where for look in looks for finding in look.findings}
    kept = [KeptFix(one.fix, one.edits, causes.get(one.cause, ())) for one in found.kept]
    patch = _make_patch(healing, found, folder, kept)
    if not patch.diff:
        return PatchCheck(patch, None, "", good=False)
    whole = _run_patched(healing, found, patch)
    return whole if whole.good else _without_one(healing, found, folder, kept, whole)


def _make_patch(
    healing: TrialSession, found: Optimized, folder: Path, kept: Sequence[KeptFix]
) -> SourcePatch:
    judged = [one for one in (*found.judged, found.whole) if one is not None and one.kept]
    made = merge_lines(ran.made for one in judged for ran in one.treats)
    patch = make_patch(kept, list(healing.command), folder, found.before.device.kind, made)
    return found_as(patch, (ran for one in judged for ran in one.treats))


def _without_one(
    healing: TrialSession,
    found: Optimized,
    folder: Path,
    kept: Sequence[KeptFix],
    whole: PatchCheck,
) -> PatchCheck:
    """One fix may have been written wrongly: the patch without it, the last one first, where that
    runs as it should and there is time to see it; else what is known of the whole."""
    why = whole.told.removeprefix(REFUSED).rstrip(".")
    for left in reversed(kept):
        patch = _make_patch(healing, found, folder, [one for one in kept if one is not left])
        if not patch.diff or patch.diff == whole.patch.diff:
            continue
        if healing.over_s < healing.arm_s:
            break
        handed = _run_patched(
            healing, found, patch.note_missing(left, f"left out: with it, too, {why}")
        )
        if handed.good:
            return whole if handed.speedup is None else handed  # it may not have been run
    return whole


def _run_patched(healing: TrialSession, found: Optimized, patch: SourcePatch) -> PatchCheck:
    healing.voice.show_stage("the patched files, once")
    try:
        ran = healing.run_trial_arm((), patch=patch)
    except OSError as error:
        return PatchCheck(patch, None, f"The patch was not run: {error}.", good=True)
    except KeyboardInterrupt:
        return PatchCheck(patch, None, "The patch was not run: it was stopped before.", good=True)
    if ran.ending == "full":
        return PatchCheck(patch, None, f"The patch was not run to its end: {ran.full}.", good=True)
    if not ran.is_comparable or ran.told is None:
        last = error_line.last_error_line(ran.said)[:120]
        if ran.stumbled:
            return PatchCheck(patch, None, f"{STUMBLED} ({last}).", good=True)
        told = f"{REFUSED}patched so, the job {ran.ending} ({last})."
        return PatchCheck(patch, None, told, good=False)
    if why := explain_unloaded(patch, ran):
        return PatchCheck(patch, None, f"The patch could not be checked: {why}.", good=True)
    return _compare_patched(healing, found, patch, ran, ran.told)


def _compare_patched(
    healing: TrialSession, found: Optimized, patch: SourcePatch, ran: ArmResult, told: ProcessReport
) -> PatchCheck:
    """Hold the patched run against the untreated ones: the numbers decide, the speed is told."""
    first = next(one for one in found.judged if one.kept)
    known, numbers = (found.whole or first).untreated, ""
    if known:
        fix = all_kept(healing)
        arms = replace(
            make_arms(healing, fix, (), ()),
            drawn=lambda steps: healing.run_numeric_arm((), steps, eager=True, patch=patch),
        )
        check, _ = check_all_ranks(fix, known, [ran], arms)
        if not check.holds:
            why = f"{REFUSED}patched so, {check.told}."
            return PatchCheck(patch, None, why, good=False)
        numbers = f" Their numbers: {check.told}."
    times = _PatchedTimes(list(first.base_s), [_patched_s(found, told)])
    gain = found.whole.effect if found.whole else None
    if gain is not None and not patch.lacking and times.is_below(gain):
        _rerun_both(healing, found, patch, times)
    said = times.describe_times(gain, patch.lacking) + numbers
    return PatchCheck(patch, times.patched_speedup, said, good=True)


@dataclass(slots=True)
class _PatchedTimes:
    """Seconds of a steady step, of the job as it was and of the patched files, run by run."""

    base_s: list[float]
    patched_s: list[float]

    @property
    def patched_speedup(self) -> float:
        return fmean(self.base_s) / fmean(self.patched_s)

    def is_below(self, gain: SpeedupEstimate) -> bool:
        """Whether it is less than trials have found, beyond chance: single runs scatter more than
        the means of ``gain.pairs`` of them, whose interval is known. With as much scatter in each
        run, and ``n`` runs here, by the root of ``(1/pairs + 1/n) / (2/pairs)`` times as much."""
        wider = math.sqrt((1.0 + gain.pairs / len(self.patched_s)) / 2.0)
        return self.patched_speedup < gain.speedup * (gain.low / gain.speedup) ** wider

    def describe_times(self, gain: SpeedupEstimate | None, lacking: Sequence[str]) -> str:
        """What patched runs came to, and whether that is what trials have found, of all fixes: of
        files that lack some of them nobody knows how fast they would have been."""
        times = "once" if len(self.patched_s) == 1 else "twice"
        said = (
            f"The patched files were run {times}: {self.patched_speedup:.2f} times as fast "
            "as before"
        )
        if gain is not None and lacking:
            rest = f"what is left to do by hand ({', '.join(lacking)})"
            return f"{said}; the {gain.speedup:.2f} of the trials is with {rest}."
        if gain is None or not self.is_below(gain):
            return f"{said}."
        return (
            f"{said}, less than in the trials ({gain.speedup:.2f}, {gain.low:.2f} to "
            f"{gain.high:.2f}): compare a longer run before you rely on it."
        )


def _patched_s(found: Optimized, told: ProcessReport) -> float:
    """Seconds of a step; where fixes gave it more samples, of as many as it had."""
    known = found.whole.untreated.get(told.rank or 0) if found.whole else None
    if known is None or not any(changes_batch(one) for one in found.kept):
        return step_s(told, len(told.marks))
    return work_s([known.base], [told])[1][0]


def _rerun_both(
    healing: TrialSession, found: Optimized, patch: SourcePatch, times: _PatchedTimes
) -> None:
    """Run both sides once more, side by side: machines are not as fast at all times."""
    if healing.over_s < AGAIN * healing.arm_s:
        return
    healing.voice.show_stage(
        "once more, beside the job as it is: they were slower than in the trials"
    )
    try:
        base, ran = healing.run_trial_arm(()), healing.run_trial_arm((), patch=patch)
    except KeyboardInterrupt:  # what is known by then holds
        return
    if base.is_comparable and ran.is_comparable and base.told is not None and ran.told is not None:
        times.base_s.append(step_s(base.told, len(base.told.marks)))
        times.patched_s.append(_patched_s(found, ran.told))
