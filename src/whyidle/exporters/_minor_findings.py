"""Findings that are remarks: what brings little, and what may do harm for all that it promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.model.diagnosis import Finding

WORTH: Final = 0.03
"""share of the step, as findings are graded"""


def small_and_risky(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Remarks in their order: those of less than 3 % of the step, and those whose best fix promises
    more. What promises that much is a remark only because it may as well slow the job down."""
    remarks = [finding for finding in findings if finding.severity == "info"]
    risky = [finding for finding in remarks if _predicted_saving(finding) >= WORTH]
    return [finding for finding in remarks if finding not in risky], risky


def _predicted_saving(finding: Finding) -> float:
    """Share of the step that its best fix is expected to win, of what it costs. A fix that gives
    steps more samples wins no share of the step."""
    fixes = [fix for fix in finding.fixes if not fix.changes_batch]
    told = [fix.predicted.speedup for fix in fixes if fix.predicted]
    return min(1.0 - 1.0 / max(told, default=1.0), finding.lost.high)
