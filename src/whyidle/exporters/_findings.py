"""Findings for a terminal: each with its cost, place, proof and fixes; small ones in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.exporters import _words as words
from whyidle.exporters._page import Page, limited
from whyidle.exporters._remarks import small_and_risky
from whyidle.exporters._tried import advised, in_turn, rejected, tried
from whyidle.model.diagnosis import Diagnosis, Finding, Predicted, ProposedFix, Severity, Trial

_SEVERITIES: Final[dict[Severity, str]] = {
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "dim",
}
_REMARKS: Final = ("under 3%", "may as well slow the job down")
_PROOFS = 3
_PLACES = 2
_FIXES = 2
"""so many of each are shown, the rest is counted; ``full`` shows all"""


def findings(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """One after the other, the costliest first."""
    told = [finding for finding in advised(diagnosis) if full or finding.severity != "info"]
    for number, finding in enumerate(told, 1):
        page.gap()
        _finding(page, number, finding, diagnosis.trials, full)
    if len(told) < len(diagnosis.findings):
        page.gap()
        for label, remarks in zip(_REMARKS, small_and_risky(diagnosis.findings), strict=True):
            if remarks:
                listed = ", ".join(finding.cause for finding in remarks)
                page.line(page.text(f"also, {label}: {listed}", "dim"), indent=2)


def _finding(
    page: Page, number: int, finding: Finding, trials: Sequence[Trial], full: bool
) -> None:
    mark = page.text(f"{number}. {finding.severity.upper()} ", _SEVERITIES[finding.severity])
    page.line(page.text(finding.headline, "bold"), head=mark, indent=2)
    cost = f"{words.interval(finding.lost)} of the step{words.elsewhere(finding)}"
    _row(page, "costs", f"{cost} · {finding.cause}, {finding.confidence:.0%} sure")
    places = list(dict.fromkeys(words.place(place) for place in finding.where))
    for label, text in limited("where", places, None if full else _PLACES):
        _row(page, label, text)
    for label, text in limited("proof", _proofs(finding), None if full else _PROOFS):
        _row(page, label, text)
    fixes = in_turn(finding, trials)[: None if full else _FIXES]
    for fix in fixes:
        against = rejected(fix, finding, trials)
        _row(page, "tried" if against else "fix", fix.summary, "dim" if against else "green")
        _row(page, "", _worth(fix))
        if told := tried(fix, finding, trials):
            _row(page, "", told, "bold")
        if full and fix.risk:
            _row(page, "", f"mind: {fix.risk}")
    if len(finding.fixes) > len(fixes):
        _row(page, "", f"and {len(finding.fixes) - len(fixes)} more")


def _proofs(finding: Finding) -> list[str]:
    listed = []
    for evidence in finding.evidence:
        samples = f" ({evidence.samples} samples)" if (evidence.samples or 0) > 1 else ""
        listed.append(f"{evidence.quantity}: {words.measured(evidence)}{samples}")
    return listed


def _worth(fix: ProposedFix) -> str:
    parts = [foretold(fix.predicted)] if fix.predicted else []
    return "; ".join([*parts, words.CONSENTS[fix.consent]])


def foretold(predicted: Predicted) -> str:
    """What a fix is foretold to bring."""
    ends = words.bracketed(predicted.low, predicted.high)
    return f"predicted {words.factor(predicted.speedup)}× as fast{ends}"


def _row(page: Page, label: str, text: str, style: str = "") -> None:
    page.line(page.text(text, style), head=page.text(f"{label:<7}", "dim"), indent=5)
