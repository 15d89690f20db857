"""Summarizes the outcomes of trials, for the report as a whole and per finding."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from whyidle.model.diagnosis import Diagnosis, Finding, ProposedFix, Trial

_PAIRS = re.compile(r" in \d+ pairs\b.*")


def collect_reasons(trials: Sequence[Trial]) -> str:
    """The distinct reasons of trials, in order; empty if there are none."""
    return "; ".join(dict.fromkeys(_shorten_reason(trial.why) for trial in trials if trial.why))


def join_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Kept trials of the same fix and settings as one, in the place of the first: from its first
    value to the last, with the whole gain."""
    joined: dict[object, Trial] = {}
    for number, trial in enumerate(trials):
        key: object = number
        if trial.kept:
            key = trial.fix, tuple(sorted(edit.knob for edit in trial.edits))
        joined[key] = _continue_trial(joined[key], trial) if key in joined else trial
    return list(joined.values())


def _continue_trial(first: Trial, later: Trial) -> Trial:
    """Each was measured against the job with those before it, so that gains multiply."""
    was = {edit.knob: edit.was for edit in first.edits}
    gains = [
        None if a is None or b is None else a * b
        for a, b in (
            (first.speedup, later.speedup), (first.low, later.low), (first.high, later.high)
        )
    ]  # fmt: skip
    return replace(
        later,
        cause=first.cause,
        edits=[replace(edit, was=was.get(edit.knob, edit.was)) for edit in later.edits],
        baseline=first.baseline,
        speedup=gains[0],
        low=gains[1],
        high=gains[2],
        predicted=first.predicted,
        promised=first.promised,
        pairs=first.pairs + later.pairs,
        searched=[*first.searched, *later.searched],
        notes=list(dict.fromkeys([*first.notes, *later.notes])),
        host_bytes_before=first.host_bytes_before,
        device_bytes_before=first.device_bytes_before,
    )


def order_findings(diagnosis: Diagnosis) -> list[Finding]:
    """All findings: the verdict's finding first, those whose fixes were all rejected last."""
    trials, cause = diagnosis.trials, diagnosis.verdict.cause

    def sort_key(finding: Finding) -> tuple[bool, bool]:
        fixes = finding.fixes
        exhausted = bool(fixes) and all(is_rejected(fix, finding, trials) for fix in fixes)
        return exhausted, finding.cause != cause

    return sorted(diagnosis.findings, key=sort_key)


def in_turn(finding: Finding, trials: Sequence[Trial]) -> list[ProposedFix]:
    """The fixes of a finding, rejected ones last."""
    return sorted(finding.fixes, key=lambda fix: is_rejected(fix, finding, trials))


def is_rejected(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> bool:
    """Whether trials speak against a fix: it was measured or did harm, and was not kept.
    Interrupted trials, and inconclusive ones that still allow the prediction, do not count."""
    fix_trials = _trials_of_fix(fix, finding, trials)
    judged = [trial for trial in fix_trials if _was_measured(trial) or trial.harmful]
    return bool(judged) and not any(trial.kept or trial.interrupted for trial in fix_trials)


def _was_measured(trial: Trial) -> bool:
    if trial.untold and trial.high is not None and trial.promised is not None:
        return trial.high < trial.promised.speedup
    return trial.speedup is not None


def describe_outcome(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> str:
    """The outcome of a fix's trial, for this finding or else for another; empty if untried."""
    fix_trials = _trials_of_fix(fix, finding, trials)
    kept = next((trial for trial in fix_trials if trial.kept), None)
    if kept is not None:
        return f"tried and kept{_describe_other_value(fix, kept)}"
    reason = fix_trials[0].why.partition(":")[0] if fix_trials else ""
    return f"tried, not kept{reason and f': {reason}'}" if fix_trials else ""


def _describe_other_value(fix: ProposedFix, trial: Trial) -> str:
    """The values that the search found to be faster than the predicted ones."""
    predicted = {edit.knob: edit.value for edit in fix.edits}
    changes = [
        f"{edit.knob} = {edit.value}"
        for edit in trial.edits
        if edit.value != predicted.get(edit.knob, edit.value)
    ]
    return f" with {' and '.join(changes)}" if changes else ""


def _trials_of_fix(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> list[Trial]:
    matches = [trial for trial in trials if trial.tried and trial.fix == fix.fix]
    return [trial for trial in matches if trial.cause == finding.cause] or matches


def _shorten_reason(why: str) -> str:
    return _PAIRS.sub("", ": ".join(why.split(": ")[:2]).partition(" (")[0])
