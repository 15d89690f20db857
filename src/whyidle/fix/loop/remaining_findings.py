"""Describes the remaining findings of a fixed job, and what they need."""

from __future__ import annotations

import textwrap

from whyidle.fix.loop import optimize
from whyidle.fix.loop.candidates import SAFE, choose_candidates
from whyidle.model.diagnosis import Diagnosis, Finding

MOST = 140  # characters of a fix's summary


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
    summary = textwrap.shorten(fix.summary, MOST, placeholder=" ...")
    return f": {summary}{reason and f' ({reason})'}"
