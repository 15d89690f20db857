"""Renders findings for a terminal: cost, places, evidence and fixes; minor ones in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.exporters import _number_format as words
from whyidle.exporters._minor_findings import small_and_risky
from whyidle.exporters._text_page import Page, limit_rows
from whyidle.exporters._trial_outcomes import describe_outcome, in_turn, is_rejected, order_findings
from whyidle.model.diagnosis import Diagnosis, Finding, Predicted, Severity, Trial

_SEVERITIES: Final[dict[Severity, str]] = {
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "dim",
}
_MINOR: Final = ("under 3%", "the fix may slow the job down")
_EVIDENCE = 3
_PLACES = 2
_FIXES = 2
"""rows that are shown; the rest is counted, and ``full`` shows all"""


def draw_findings(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Draw the findings, the costliest first."""
    shown = [finding for finding in order_findings(diagnosis) if full or finding.severity != "info"]
    for number, finding in enumerate(shown, 1):
        page.write_blank_line()
        _draw_finding(page, number, finding, diagnosis.trials, full)
    if len(shown) < len(diagnosis.findings):
        page.write_blank_line()
        for label, minor in zip(_MINOR, small_and_risky(diagnosis.findings), strict=True):
            if minor:
                listed = ", ".join(finding.cause for finding in minor)
                page.write_paragraph(f"also ({label}): {listed}", style="dim", indent=2)


def _draw_finding(
    page: Page, number: int, finding: Finding, trials: Sequence[Trial], full: bool
) -> None:
    mark = page.styled_text(f"{number}. {finding.severity.upper()} ", _SEVERITIES[finding.severity])
    page.write_paragraph(finding.headline, style="bold", head=mark, indent=2)
    cost = f"{words.format_interval(finding.lost)} of the step{words.overlap_remark(finding)}"
    certainty = f"confidence {finding.confidence:.0%}"
    _draw_labelled_row(page, "costs", f"{cost} · {finding.cause} · {certainty}")
    if finding.removal is not None:
        gain = words.format_removal(finding.removal)
        _draw_labelled_row(page, "gain", f"removing it entirely: {gain}")
    places = list(dict.fromkeys(words.format_place(place) for place in finding.where))
    for label, text in limit_rows("where", places, None if full else _PLACES):
        _draw_labelled_row(page, label, text)
    evidence = _format_evidence(finding)
    for label, text in limit_rows("evidence", evidence, None if full else _EVIDENCE):
        _draw_labelled_row(page, label, text)
    fixes = in_turn(finding, trials)[: None if full else _FIXES]
    for fix in fixes:
        label, style = ("tried", "dim") if is_rejected(fix, finding, trials) else ("fix", "green")
        _draw_labelled_row(page, label, fix.summary, style)
        gain = f"{format_prediction(fix.predicted)}; " if fix.predicted else ""
        how = "automatic" if fix.automatic else "by hand"
        _draw_labelled_row(page, "", f"{how}, {gain}{words.CONSENTS[fix.consent]}")
        if outcome := describe_outcome(fix, finding, trials):
            _draw_labelled_row(page, "", outcome, "bold")
        if full and fix.risk:
            _draw_labelled_row(page, "", f"risk: {fix.risk}")
    if len(finding.fixes) > len(fixes):
        _draw_labelled_row(page, "", f"and {len(finding.fixes) - len(fixes)} more (--all)")


def _format_evidence(finding: Finding) -> list[str]:
    listed = []
    for evidence in finding.evidence:
        samples = f" ({evidence.samples} samples)" if (evidence.samples or 0) > 1 else ""
        listed.append(f"{evidence.quantity}: {words.format_evidence(evidence)}{samples}")
    return listed


def format_prediction(predicted: Predicted) -> str:
    """The predicted gain of a fix."""
    ends = words.format_bracketed(predicted.low, predicted.high)
    return f"predicted {words.format_factor(predicted.speedup)}× as fast{ends}"


def _draw_labelled_row(page: Page, label: str, text: str, style: str = "") -> None:
    page.write_paragraph(text, style=style, label=f"{label:<9}", indent=5)
