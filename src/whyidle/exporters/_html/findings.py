"""Findings as cards: what is wrong, what it costs, where, and what fixes it."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._minor_findings import small_and_risky
from whyidle.exporters._number_format import (
    format_bracketed,
    format_evidence,
    format_factor,
    format_interval,
    format_method,
    format_percent,
    format_place,
    overlap_remark,
)
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._trial_outcomes import describe_outcome, in_turn, is_rejected, order_findings
from whyidle.model.diagnosis import Diagnosis, Evidence, Finding, Place, ProposedFix, Trial

CONSENT = {
    "none": "same numbers",
    "rounding": "same mathematics, other rounding or random order",
    "numerics": "changes precision",
    "convergence": "may change learning",
}
_PLACES = 6


def render_findings(diagnosis: Diagnosis) -> Markup:
    """All findings, the small and the risky ones folded away."""
    serious = [f for f in order_findings(diagnosis) if f.severity != "info"]
    small, risky = small_and_risky(diagnosis.findings)
    return element(
        "section",
        element("h2", _section_title(len(serious), diagnosis)),
        None if serious else _render_no_findings(diagnosis),
        [_render_card(f, diagnosis, number) for number, f in enumerate(serious, 1)],
        _render_folded("smaller thing", "under 3%", small, diagnosis),
        _render_folded("thing", "may as well slow the job down", risky, diagnosis),
        id="findings",
    )


def _render_folded(
    noun: str, why: str, remarks: list[Finding], diagnosis: Diagnosis
) -> Markup | None:
    if not remarks:
        return None
    return element(
        "details",
        element("summary", f"{len(remarks)} {noun}{'s' if len(remarks) != 1 else ''} ({why})"),
        [_render_card(finding, diagnosis, None) for finding in remarks],
    )


def _section_title(count: int, diagnosis: Diagnosis) -> str:
    if count:
        was = " before" if diagnosis.detail.fixed is not None else ""
        return f"{count} cause{'s' if count != 1 else ''} worth fixing{was}"
    return "Nothing worth fixing" if diagnosis.verdict.state == "saturated" else "No cause proven"


def _render_no_findings(diagnosis: Diagnosis) -> Markup:
    if diagnosis.verdict.state == "saturated":
        return element(
            "p", "Nothing that would save more than 3% of the step was found.", class_="calm"
        )
    said = "That is not the same as there being none: see below what could not be told."
    return element("p", said, class_="note")


def _render_card(finding: Finding, diagnosis: Diagnosis, number: int | None) -> Markup:
    look = LOOKS[finding.bucket]
    return element(
        "article",
        element(
            "p",
            element("span", finding.severity, class_=f"badge {finding.severity}"),
            element(
                "span", element("i", class_=f"dot {finding.bucket}"), look.title, class_="bucket"
            ),
            element("code", finding.cause),
            element("span", f"confidence {finding.confidence:.0%}", class_="sure"),
            class_="meta",
        ),
        element("h3", f"{number}. " if number else None, finding.title or finding.cause),
        element("p", finding.headline, class_="lead"),
        _render_lost(finding, getattr(diagnosis.attribution, finding.bucket)),
        _render_places(finding.where),
        [_render_fix(fix, finding, diagnosis.trials) for fix in in_turn(finding, diagnosis.trials)],
        _render_evidence(finding.evidence, open_=number == 1),
        class_=f"card {finding.severity}",
        style=f"--accent:{look.colour}",
    )


def _render_lost(finding: Finding, bucket: float) -> Markup:
    """The lost interval on the scale of the step, before what its whole bucket holds."""
    low, high = finding.lost.low, finding.lost.high
    title = LOOKS[finding.bucket].title
    return element(
        "div",
        element(
            "span",
            "costs ",
            element("b", format_interval(finding.lost)),
            f" of the step{overlap_remark(finding)}",
        ),
        element(
            "span",
            element("span", class_="held", style=f"width:{bucket * 100:.2f}%"),
            element("span", class_="low", style=f"width:{low * 100:.2f}%"),
            element(
                "span",
                class_="high",
                style=f"left:{low * 100:.2f}%;width:{(high - low) * 100:.2f}%",
            ),
            class_="range",
            title=f"{format_interval(finding.lost)}; {title} in all holds {format_percent(bucket)}",
        ),
        class_="lost",
    )


def _render_places(places: list[Place]) -> Markup | None:
    if not places:
        return None
    more = len(places) - _PLACES
    return element(
        "p",
        [element("code", format_place(where)) for where in places[:_PLACES]],
        element("small", f"and {more} more places") if more > 0 else None,
        class_="where",
    )


def _render_fix(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> Markup:
    told, against = describe_outcome(fix, finding, trials), is_rejected(fix, finding, trials)
    edits = [element("code", f"{edit.knob} = {_format_value(edit.value)}") for edit in fix.edits]
    return element(
        "div",
        element("p", element("b", "Tried: " if against else "Fix: "), fix.summary),
        element("p", element("b", f"{told[:1].upper()}{told[1:]}.")) if told else None,
        _render_gain(fix),
        element(
            "p",
            element(
                "span",
                CONSENT[fix.consent],
                class_=f"pill {fix.consent}",
                title=f"consent: {fix.consent}",
            ),
            element("span", "mechanical change" if fix.automatic else "by hand", class_="pill"),
            edits,
            class_="pills",
        ),
        element("p", element("b", "Risk: "), fix.risk, class_="risk") if fix.risk else None,
        class_="fix",
    )


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _render_gain(fix: ProposedFix) -> Markup | None:
    """The predicted speed-up with its interval, on a scale from 1x to twice that or more."""
    told = fix.predicted
    if told is None:
        return None
    top = max(2.0, told.high)
    left, right = ((max(1.0, x) - 1) / (top - 1) * 100 for x in (told.low, told.high))
    middle = (max(1.0, told.speedup) - 1) / (top - 1) * 100
    return element(
        "div",
        element(
            "span",
            "predicted ",
            element("b", f"{format_factor(told.speedup)}×"),
            format_bracketed(told.low, told.high),
        ),
        element(
            "span",
            element(
                "span", class_="high", style=f"left:{left:.1f}%;width:{max(right - left, 0.5):.1f}%"
            ),
            element("span", class_="mid", style=f"left:{middle:.1f}%"),
            class_="range gain",
            title=f"scale: 1× to {top:.1f}×",
        ),
        element("small", f"by: {told_by}") if (told_by := format_method(told)) else None,
        class_="lost",
    )


def _render_evidence(evidence: list[Evidence], *, open_: bool) -> Markup | None:
    if not evidence:
        return None
    rows = [
        element(
            "tr",
            element("td", item.quantity),
            element(
                "td", format_evidence(item), class_="words" if isinstance(item.value, str) else "n"
            ),
            element("td", "" if item.samples is None else f"{item.samples:,}", class_="n"),
            element("td", item.window or ""),
            element("td", item.source or ""),
        )
        for item in evidence
    ]
    heads = ("measured", "value", "samples", "over", "seen in")
    head = element(
        "tr", [element("th", h, class_="n" if h in ("value", "samples") else None) for h in heads]
    )
    table = element("table", element("thead", head), element("tbody", rows))
    plural = "s" if len(evidence) != 1 else ""
    return element(
        "details",
        element("summary", f"Evidence ({len(evidence)} measurement{plural})"),
        element("div", table, class_="scroll"),
        open=open_,
    )
