"""Findings for a terminal: each with its cost, place, proof and fixes; small ones in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.exporters import _number_format as words
from whyidle.exporters._minor_findings import small_and_risky
from whyidle.exporters._text_page import Page, limit_rows
from whyidle.exporters._trial_outcomes import describe_outcome, in_turn, is_rejected, order_findings
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


def draw_findings(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """One after the other, the costliest first."""
    told = [finding for finding in order_findings(diagnosis) if full or finding.severity != "info"]
    for number, finding in enumerate(told, 1):
        page.write_blank_line()
        _draw_finding(page, number, finding, diagnosis.trials, full)
    if len(told) < len(diagnosis.findings):
        page.write_blank_line()
        for label, remarks in zip(_REMARKS, small_and_risky(diagnosis.findings), strict=True):
            if remarks:
                listed = ", ".join(finding.cause for finding in remarks)
                page.write_paragraph(page.styled_text(f"also, {label}: {listed}", "dim"), indent=2)


def _draw_finding(
    page: Page, number: int, finding: Finding, trials: Sequence[Trial], full: bool
) -> None:
    mark = page.styled_text(f"{number}. {finding.severity.upper()} ", _SEVERITIES[finding.severity])
    page.write_paragraph(page.styled_text(finding.headline, "bold"), head=mark, indent=2)
    cost = f"{words.format_interval(finding.lost)} of the step{words.overlap_remark(finding)}"
    _draw_labelled_row(page, "costs", f"{cost} · {finding.cause}, {finding.confidence:.0%} sure")
    places = list(dict.fromkeys(words.format_place(place) for place in finding.where))
    for label, text in limit_rows("where", places, None if full else _PLACES):
        _draw_labelled_row(page, label, text)
    for label, text in limit_rows("proof", _format_evidence(finding), None if full else _PROOFS):
        _draw_labelled_row(page, label, text)
    fixes = in_turn(finding, trials)[: None if full else _FIXES]
    for fix in fixes:
        against = is_rejected(fix, finding, trials)
        _draw_labelled_row(
            page, "tried" if against else "fix", fix.summary, "dim" if against else "green"
        )
        _draw_labelled_row(page, "", _format_gain(fix))
        if told := describe_outcome(fix, finding, trials):
            _draw_labelled_row(page, "", told, "bold")
        if full and fix.risk:
            _draw_labelled_row(page, "", f"mind: {fix.risk}")
    if len(finding.fixes) > len(fixes):
        _draw_labelled_row(page, "", f"and {len(finding.fixes) - len(fixes)} more")


def _format_evidence(finding: Finding) -> list[str]:
    listed = []
    for evidence in finding.evidence:
        samples = f" ({evidence.samples} samples)" if (evidence.samples or 0) > 1 else ""
        listed.append(f"{evidence.quantity}: {words.format_evidence(evidence)}{samples}")
    return listed


def _format_gain(fix: ProposedFix) -> str:
    parts = [format_prediction(fix.predicted)] if fix.predicted else []
    return "; ".join([*parts, words.CONSENTS[fix.consent]])


def format_prediction(predicted: Predicted) -> str:
    """What a fix is foretold to bring."""
    ends = words.format_bracketed(predicted.low, predicted.high)
    return f"predicted {words.format_factor(predicted.speedup)}× as fast{ends}"


def _draw_labelled_row(page: Page, label: str, text: str, style: str = "") -> None:
    page.write_paragraph(
        page.styled_text(text, style), head=page.styled_text(f"{label:<7}", "dim"), indent=5
    )
