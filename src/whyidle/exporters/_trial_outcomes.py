"""Why fixes that were tried are not kept, in few words: in all, and beside each where it is
proposed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from whyidle.model.diagnosis import Diagnosis, Finding, ProposedFix, Trial

_PAIRS = re.compile(r" in \d+ pairs\b.*")
"""how often something was tried in vain, and what stood in the way of more"""


def collect_reasons(trials: Sequence[Trial]) -> str:
    """Each reason once, in the order of the trials; empty where none is told."""
    return "; ".join(dict.fromkeys(_shorten_reason(trial.why) for trial in trials if trial.why))


def order_findings(diagnosis: Diagnosis) -> list[Finding]:
    """All findings in their order, but first the one that the verdict is about, and last those of
    which every fix has failed its trial: what is left to do comes first."""
    trials, cause = diagnosis.trials, diagnosis.verdict.cause
    return sorted(
        diagnosis.findings, key=lambda one: (_is_exhausted(one, trials), one.cause != cause)
    )


def _is_exhausted(finding: Finding, trials: Sequence[Trial]) -> bool:
    fixes = finding.fixes
    return bool(fixes) and all(is_rejected(fix, finding, trials) for fix in fixes)


def in_turn(finding: Finding, trials: Sequence[Trial]) -> list[ProposedFix]:
    """Its fixes in their order, those that have failed their trial last."""
    return sorted(finding.fixes, key=lambda fix: is_rejected(fix, finding, trials))


def is_rejected(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> bool:
    """Whether a trial speaks against it: it was measured, or did harm, and was not kept. One that
    the job did not take up, or that was interrupted, says nothing of it; nor does one that could
    not be told, and leaves room for what was predicted."""
    own = _trials_of_fix(fix, finding, trials)
    judged = [one for one in own if _was_measured(one) or one.harmful]
    return bool(judged) and not any(one.kept or one.interrupted for one in own)


def _was_measured(trial: Trial) -> bool:
    if trial.untold and trial.high is not None and trial.promised is not None:
        return trial.high < trial.promised.speedup
    return trial.speedup is not None


def describe_outcome(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> str:
    """What came of it where it was tried, for this finding or else for another, by the first words
    of the reason, which the trial tells in full; empty where it was not."""
    own = _trials_of_fix(fix, finding, trials)
    kept = next((one for one in own if one.kept), None)
    if kept is not None:
        return f"tried, and kept{_describe_other_value(fix, kept)}"
    head = own[0].why.partition(":")[0] if own else ""
    return f"tried, not kept{head and f': {head}'}" if own else ""


def _describe_other_value(fix: ProposedFix, kept: Trial) -> str:
    """With which numbers, where a search found better ones than were foretold."""
    foretold = {edit.knob: edit.value for edit in fix.edits}
    others = [
        f"{edit.knob} = {edit.value}"
        for edit in kept.edits
        if edit.knob in foretold and edit.value != foretold[edit.knob]
    ]
    return f" with {' and '.join(others)}" if others else ""


def _trials_of_fix(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> list[Trial]:
    own = [one for one in trials if one.tried and one.fix == fix.fix]
    return [one for one in own if one.cause == finding.cause] or own


def _shorten_reason(why: str) -> str:
    """Without the numbers and lines behind it, which the trial itself tells."""
    return _PAIRS.sub("", ": ".join(why.split(": ")[:2]).partition(" (")[0])
