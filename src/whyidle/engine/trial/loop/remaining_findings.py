"""What remains of a job that was fixed, and what it would take: a sentence for each finding."""

from __future__ import annotations

import textwrap

from whyidle.engine.trial.loop import optimize
from whyidle.engine.trial.loop.candidates import SAFE, PassedOver, choose_candidates
from whyidle.model.diagnosis import Diagnosis, Finding, ProposedFix

MOST = 140
"""characters of what is to be done: the finding has all of it"""


def describe_remaining(found: optimize.Optimized, after: Diagnosis) -> list[str]:
    """Of every finding but remarks, in their order."""
    return [
        f"{_describe_cost(finding)}{_describe_remedy(found, after, finding)}"
        for finding in after.findings
        if finding.severity != "info"
    ]


def _describe_cost(finding: Finding) -> str:
    """What it is, where, and what it costs."""
    where = next((f"{at.file}:{at.line}, " for at in finding.where if at.file and at.line), "")
    most = "" if finding.exceeds_bucket else " at most"
    return f"{finding.headline} ({finding.cause}, {where}{finding.lost.high:.0%} of the step{most})"


def _describe_remedy(found: optimize.Optimized, after: Diagnosis, finding: Finding) -> str:
    """What it would take, and why that was not done: of its fixes the first that has not been
    tried, or else the first of all."""
    if not finding.fixes:
        return ""
    why = {one.candidate.fix: f"tried, not kept: {one.rejection_text}" for one in found.judged}
    why |= {one.candidate.fix: "kept, and not enough" for one in found.judged if one.kept}
    untried = [fix for fix in finding.fixes if fix.fix not in why]
    fix = (untried or finding.fixes)[0]
    passed = {one.candidate.fix: one.why for one in (*_consent_required(after), *found.passed)}
    told = (passed | why).get(fix.fix, "")
    return f": {_short_summary(fix)}{told and f' ({told})'}"


def _consent_required(after: Diagnosis) -> list[PassedOver]:
    """What is not tried without a word of the user's: it may have been seen in the last look
    only."""
    return choose_candidates(after, SAFE)[1]


def _short_summary(fix: ProposedFix) -> str:
    return textwrap.shorten(fix.summary, MOST, placeholder=" ...")
