"""Findings as sections: cost, places, evidence and fixes; minor ones folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.cause import WORTH
from whyidle.model.diagnosis import Diagnosis, Evidence, Finding, ProposedFix, Trial
from whyidle.reports import _number_format as words
from whyidle.reports._html.element import Markup, tag
from whyidle.reports._palette import LOOKS
from whyidle.reports._sections import (
    Card,
    Column,
    Facts,
    Folded,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Span,
    Table,
)
from whyidle.reports._trial_outcomes import describe_outcome, in_turn, is_rejected, order_findings

_PLACES: Final = 6


def serious_findings(diagnosis: Diagnosis) -> list[Finding]:
    """The findings that are more than minor, the verdict's first."""
    return [finding for finding in order_findings(diagnosis) if finding.severity != "info"]


def findings_section(diagnosis: Diagnosis) -> Section:
    """All findings, minor ones folded by what makes them minor."""
    serious = serious_findings(diagnosis)
    cards = [_card(finding, diagnosis, number) for number, finding in enumerate(serious, 1)]
    folded = [
        Folded(f"{_count(len(minor), 'minor finding')} ({why})",
               [_card(finding, diagnosis, None) for finding in minor])
        for why, minor in minor_findings(diagnosis.findings).items()
    ]  # fmt: skip
    nothing = [] if serious else [_no_finding(diagnosis)]
    return Section(_title(len(serious), diagnosis), [*nothing, *cards, *folded], "findings")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _title(count: int, diagnosis: Diagnosis) -> str:
    if count:
        after = " before the fixes" if diagnosis.detail.fixed is not None else ""
        return f"{_count(count, 'cause')} found{after}"
    return "No cause found" if diagnosis.verdict.state == "saturated" else "No cause proven"


def _no_finding(diagnosis: Diagnosis) -> Paragraph:
    if diagnosis.verdict.state == "saturated":
        return Paragraph(
            "No cause worth more than 3% was found among the checks that this recording allows."
        )
    return Paragraph(
        "There may be causes that this recording cannot prove; they are listed below.", tone="dim"
    )


def _card(finding: Finding, diagnosis: Diagnosis, number: int | None) -> Card:
    rows: list[tuple[str, Line]] = [
        ("costs", [Span(words.format_interval(finding.lost), "strong"),
                   f" of the step{words.overlap_remark(finding)}"]),
    ]  # fmt: skip
    if finding.removal is not None:
        limit = words.format_removal(finding.removal)
        rows.append(("limit", f"{limit}, if the cause disappeared entirely"))
    places = list(dict.fromkeys(words.format_place(place) for place in finding.where))
    rows += [("" if n else "where", Span(text, "code")) for n, text in enumerate(places[:_PLACES])]
    if len(places) > _PLACES:
        rows.append(("", f"and {len(places) - _PLACES} more places"))
    parts: list[Part] = [
        Picture(lambda: draw_lost(finding, getattr(diagnosis.attribution, finding.bucket))),
        Facts([*rows, *_fix_rows(finding, diagnosis.trials)]),
    ]
    if finding.evidence:
        count = len(finding.evidence)
        summary = f"Evidence ({count} quantit{'y' if count == 1 else 'ies'})"
        parts.append(Folded(summary, [_evidence_table(finding.evidence)], open=number == 1))
    return Card(
        finding.headline, finding.severity,
        [Span(finding.cause, "code"), f"confidence {finding.confidence:.0%}"],
        finding.bucket, parts, number,
    )  # fmt: skip


def _fix_rows(finding: Finding, trials: Sequence[Trial]) -> Iterator[tuple[str, Line]]:
    for fix in in_turn(finding, trials):
        rejected = is_rejected(fix, finding, trials)
        yield "tried" if rejected else "fix", Span(fix.summary, "dim" if rejected else "good")
        yield "", describe_fix(fix)
        if outcome := describe_outcome(fix, finding, trials):
            yield "", Span(outcome, "strong")
        if fix.predicted and (method := words.format_method(fix.predicted)):
            yield "", Span(f"predicted from: {method}", "dim")
        if fix.risk:
            yield "", Span(f"risk: {fix.risk}", "dim")


def describe_fix(fix: ProposedFix, *, brief: bool = False) -> str:
    """Who applies a fix (``brief``: only if nobody but the user does), its predicted gain, and what
    it changes."""
    how = ("" if brief else "whyidle fix applies it, ") if fix.automatic else "by hand, "
    gain = f"{format_prediction(fix)}; " if fix.predicted else ""
    return f"{how}{gain}{words.describe_consent(fix)}"


def format_prediction(fix: ProposedFix) -> str:
    """The predicted gain of a fix; empty if none is predicted."""
    if fix.predicted is None:
        return ""
    ends = words.format_bracketed(fix.predicted.low, fix.predicted.high)
    what = "the samples per second" if fix.changes_batch else "as fast"
    return f"predicted {words.format_factor(fix.predicted.speedup)}× {what}{ends}"


def describe_evidence(item: Evidence, *, brief: bool = False) -> str:
    """One measured quantity, with the number of samples unless ``brief``."""
    samples = f" ({item.samples:,} samples)" if (item.samples or 0) > 1 and not brief else ""
    return f"{item.quantity}: {words.format_evidence(item)}{samples}"


def _evidence_table(evidence: Sequence[Evidence]) -> Table:
    rows = [
        [words.format_evidence(item), "" if item.samples is None else f"{item.samples:,}",
         item.window or "", item.source or "", item.quantity]
        for item in evidence
    ]  # fmt: skip
    columns = [Column("value"), Column("samples", True, 1), Column("window", rank=2),
               Column("source", rank=3), Column("measured")]  # fmt: skip
    return Table(columns, rows)


def draw_lost(finding: Finding, bucket: float) -> Markup:
    """Draw the lost interval on the scale of the step, in front of the share of its bucket."""
    low, high = finding.lost.low, finding.lost.high
    title = LOOKS[finding.bucket].title
    return tag(
        "div",
        tag("span", class_="held", style=f"width:{bucket * 100:.2f}%"),
        tag("span", class_="low", style=f"width:{low * 100:.2f}%"),
        tag("span", class_="high", style=f"left:{low * 100:.2f}%;width:{(high - low) * 100:.2f}%"),
        class_="range",
        title=f"{words.format_interval(finding.lost)} of {words.format_percent(bucket)} in {title}",
    )


def minor_findings(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """The minor findings by what makes them minor: they promise less than 3 % of the step, their
    fix may also slow the job down, or it takes more samples per step."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.severity == "info":
            risky = _predicted_saving(finding) >= WORTH
            batch = any(fix.changes_batch and fix.predicted for fix in finding.fixes)
            why = "the fix may slow the job down" if risky else "with a larger batch"
            groups.setdefault(why if risky or batch else "under 3%", []).append(finding)
    return groups


def _predicted_saving(finding: Finding) -> float:
    """The share of the step that the best fix should save, without those that change learning."""
    fixes = [f for f in finding.fixes if not f.changes_batch and f.consent != "convergence"]
    speedups = [fix.predicted.speedup for fix in fixes if fix.predicted]
    return min(1.0 - 1.0 / max(speedups, default=1.0), finding.lost.high)
