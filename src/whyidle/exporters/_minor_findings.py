"""Sorts minor findings: those that cost little, and those whose fixes are risky."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.model.diagnosis import Finding

WORTH: Final = 0.03
"""share of the step from which on a finding is more than minor"""


def small_and_risky(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split the minor findings into small and risky ones. A risky one promises at least 3 % of the
    step, and is minor only because its fix may also slow the job down."""
    minor = [finding for finding in findings if finding.severity == "info"]
    risky = [finding for finding in minor if _predicted_saving(finding) >= WORTH]
    return [finding for finding in minor if finding not in risky], risky


def _predicted_saving(finding: Finding) -> float:
    """The share of the step that the best fix should save, without fixes that change the batch."""
    fixes = [fix for fix in finding.fixes if not fix.changes_batch]
    speedups = [fix.predicted.speedup for fix in fixes if fix.predicted]
    return min(1.0 - 1.0 / max(speedups, default=1.0), finding.lost.high)
