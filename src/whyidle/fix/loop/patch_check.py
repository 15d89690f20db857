"""Checks the patch of the kept fixes in a run; in two runs if the first is slower than expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from whyidle.fix.arms import error_line
from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop.optimize import Optimized, all_kept, make_arms
from whyidle.fix.loop.trial_session import TrialSession
from whyidle.fix.patching.source_patch import KeptFix, SourcePatch, make_patch
from whyidle.fix.statistics.rank_equivalence import check_all_ranks
from whyidle.fix.statistics.speedup import SpeedupEstimate, step_s
from whyidle.record.plan_channel import merge_lines


def found_as(patch: SourcePatch, runs: Iterable[ArmResult]) -> SourcePatch:
    """Add the folders from which unpatched runs imported the files."""
    loaded = [files for ran in runs for files in _loaded_files(ran)]
    starts = [
        Path(start)
        for files in loaded
        for path, starts in files.items()
        if Path(path) in patch.files
        for start in starts
    ]
    folders = tuple(dict.fromkeys((*starts, *patch.own.folders)))
    return replace(patch, own=replace(patch.own, folders=folders))


def explain_unloaded(patch: SourcePatch, ran: ArmResult) -> str:
    """Explain why a run did not test the patch: it loaded an original file, or no patched one.
    Empty if it loaded a patched file, or if that is unknown."""
    processes = list(_loaded_files(ran))
    if not processes:
        return ""
    loaded = [Path(path) for files in processes for path in files]
    as_it_was = sorted(set(loaded) & set(patch.files))
    if as_it_was:
        return f"the command loads {as_it_was[0].relative_to(patch.diff_root)} from elsewhere"
    names = [path.relative_to(patch.diff_root) for path in sorted(patch.files)]
    if not any(path.parts[-len(name.parts) :] == name.parts for path in loaded for name in names):
        return f"the command did not load {names[0]}, as far as was recorded"
    return ""


def _loaded_files(ran: ArmResult) -> Iterator[Mapping[str, Sequence[str]]]:
    processes = [*ran.ranks.values(), *([ran.report] if ran.report else [])]
    return (one.files for one in processes if one.files is not None)


AGAIN = 2  # runs that a second check takes
REFUSED = "No patch was written: "
STUMBLED = (
    "The check of the patch was aborted: the job removes or recreates a large folder, which is a "
    "link in the patched copy"
)


@dataclass(frozen=True, slots=True)
class PatchCheck:
    """The result of the check."""

    patch: SourcePatch
    speedup: float | None  # of the patched files; None: not measured
    explanation: str  # the result in a sentence
    is_writable: bool = True  # whether the patch may be written


def hand_over(session: TrialSession, optimized: Optimized, folder: Path) -> PatchCheck | None:
    """Write the kept fixes into copies of the user's files, and run them; None without kept fixes.
    ``folder`` is the command's working folder."""
    if not optimized.kept:
        return None
    looks = reversed(
        (optimized.before, *optimized.diagnoses)
    )  # the first diagnosis of a cause counts
    causes = {finding.cause: finding.where for look in looks for finding in look.findings}
    kept = [KeptFix(one.fix, one.edits, causes.get(one.cause, ())) for one in optimized.kept]
    patch = _make_patch(session, optimized, folder, kept)
    if not patch.diff:
        return PatchCheck(patch, None, "", is_writable=False)
    whole = _run_patched(session, optimized, patch)
    return whole if whole.is_writable else _without_one(session, optimized, folder, kept, whole)


def _make_patch(
    session: TrialSession, optimized: Optimized, folder: Path, kept: Sequence[KeptFix]
) -> SourcePatch:
    judged = [
        one for one in (*optimized.judged, optimized.combined_trial) if one is not None and one.kept
    ]
    made = merge_lines(result.made for one in judged for result in one.treats)
    patch = make_patch(kept, list(session.command), folder, optimized.before.device.kind, made)
    return found_as(patch, (result for one in judged for result in one.treats))


def _without_one(
    session: TrialSession,
    optimized: Optimized,
    folder: Path,
    kept: Sequence[KeptFix],
    whole: PatchCheck,
) -> PatchCheck:
    """Find a patch that passes without one of the fixes; else return the check of the whole."""
    why = whole.explanation.removeprefix(REFUSED).rstrip(".")
    for omitted in reversed(kept):
        patch = _make_patch(session, optimized, folder, [one for one in kept if one is not omitted])
        if not patch.diff or patch.diff == whole.patch.diff:
            continue
        if session.over_s < session.arm_s:
            break
        check = _run_patched(
            session, optimized, patch.note_missing(omitted, f"left out, because with it {why}")
        )
        if check.is_writable:
            return whole if check.speedup is None else check  # it may not have been run
    return whole


def _run_patched(session: TrialSession, optimized: Optimized, patch: SourcePatch) -> PatchCheck:
    session.listener.show_stage("running the patched files")
    try:
        result = session.run_trial_arm((), patch=patch)
    except OSError as error:
        return PatchCheck(patch, None, f"The patch was not checked: {error}.")
    except KeyboardInterrupt:
        return PatchCheck(patch, None, "The patch was not checked: interrupted.")
    if result.ending == "full":
        return PatchCheck(patch, None, f"The check of the patch was aborted: {result.full}.")
    if not result.is_comparable or result.report is None:
        last = error_line.last_error_line(result.output_end)[:120]
        if result.failed_at_link:
            return PatchCheck(patch, None, f"{STUMBLED} ({last}).")
        message = f"{REFUSED}the patched job {result.ending} ({last})."
        return PatchCheck(patch, None, message, is_writable=False)
    if why := explain_unloaded(patch, result):
        return PatchCheck(patch, None, f"The patch was not checked: {why}.")
    return _compare_patched(session, optimized, patch, result, result.report)


def _compare_patched(
    session: TrialSession,
    optimized: Optimized,
    patch: SourcePatch,
    result: ArmResult,
    report: ProcessReport,
) -> PatchCheck:
    first = next(one for one in optimized.judged if one.kept)
    known, losses = (optimized.combined_trial or first).untreated, ""
    if known:
        fix = all_kept(session)
        arms = replace(
            make_arms(session, fix, (), ()),
            drawn=lambda steps: session.run_numeric_arm((), steps, eager=True, patch=patch),
        )
        check, _ = check_all_ranks(fix, known, [result], arms)
        if not check.holds:
            why = f"{REFUSED}in the patched job, {check.explanation}."
            return PatchCheck(patch, None, why, is_writable=False)
        losses = f" Losses: {check.explanation}."
    times = _PatchedTimes(list(first.base_s), [step_s(report, len(report.marks))])
    gain = optimized.combined_trial.effect if optimized.combined_trial else None
    if gain is not None and not patch.lacking and times.is_below(gain):
        _rerun_both(session, patch, times)
    message = times.describe_times(gain, patch.lacking) + losses
    return PatchCheck(patch, times.patched_speedup, message)


@dataclass(slots=True)
class _PatchedTimes:
    base_s: list[float]
    patched_s: list[float]

    @property
    def patched_speedup(self) -> float:
        return fmean(self.base_s) / fmean(self.patched_s)

    def is_below(self, gain: SpeedupEstimate) -> bool:
        """Whether the speed-up is significantly below that of the trials. The trials' interval is
        for means of ``pairs`` runs; with ``n`` patched runs it is wider by the square root of
        ``(1/pairs + 1/n) / (2/pairs)``."""
        wider = math.sqrt((1.0 + gain.pairs / len(self.patched_s)) / 2.0)
        return self.patched_speedup < gain.speedup * (gain.low / gain.speedup) ** wider

    def describe_times(self, gain: SpeedupEstimate | None, lacking: Sequence[str]) -> str:
        """Describe the speed-up, and compare it with the trials if the patch has all fixes."""
        times = "once" if len(self.patched_s) == 1 else "twice"
        speedup = f"{self.patched_speedup:.2f} times as fast as before"
        text = f"The patched files were run {times}: {speedup}"
        if gain is not None and lacking:
            rest = f"the fixes to apply by hand ({', '.join(lacking)})"
            return f"{text}; the trials' speed-up of {gain.speedup:.2f} includes {rest}."
        if gain is None or not self.is_below(gain):
            return f"{text}."
        return (
            f"{text}, less than in the trials ({gain.speedup:.2f}, {gain.low:.2f} to "
            f"{gain.high:.2f}): confirm it with a longer run."
        )


def _rerun_both(session: TrialSession, patch: SourcePatch, times: _PatchedTimes) -> None:
    """Run both sides once more, because the machine's speed varies."""
    if session.over_s < AGAIN * session.arm_s:
        return
    session.listener.show_stage("again, with the original files: slower than in the trials")
    try:
        base, result = session.run_trial_arm(()), session.run_trial_arm((), patch=patch)
    except KeyboardInterrupt:
        return
    if (
        base.is_comparable
        and result.is_comparable
        and base.report is not None
        and result.report is not None
    ):
        times.base_s.append(step_s(base.report, len(base.report.marks)))
        times.patched_s.append(step_s(result.report, len(result.report.marks)))
