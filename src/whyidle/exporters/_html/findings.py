"""Findings as cards."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._minor_findings import small_and_risky
from whyidle.exporters._number_format import (
    CONSENTS,
    format_bracketed,
    format_evidence,
    format_factor,
    format_interval,
    format_method,
    format_percent,
    format_place,
    format_removal,
    overlap_remark,
)
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._trial_outcomes import describe_outcome, in_turn, is_rejected, order_findings
from whyidle.model.diagnosis import Diagnosis, Evidence, Finding, Place, ProposedFix, Trial

_PLACES = 6


def render_findings(diagnosis: Diagnosis) -> Markup:
    """Render all findings, minor ones folded."""
    serious = [f for f in order_findings(diagnosis) if f.severity != "info"]
    small, risky = small_and_risky(diagnosis.findings)
    return tag(
        "section",
        tag("h2", _section_title(len(serious), diagnosis)),
        None if serious else _render_no_findings(diagnosis),
        [_render_card(f, diagnosis, number) for number, f in enumerate(serious, 1)],
        _render_folded("under 3%", small, diagnosis),
        _render_folded("the fix may slow the job down", risky, diagnosis),
        id="findings",
    )


def _render_folded(why: str, minor: list[Finding], diagnosis: Diagnosis) -> Markup | None:
    if not minor:
        return None
    return tag(
        "details",
        tag("summary", f"{len(minor)} minor finding{'s' if len(minor) != 1 else ''} ({why})"),
        [_render_card(finding, diagnosis, None) for finding in minor],
    )


def _section_title(count: int, diagnosis: Diagnosis) -> str:
    if count:
        plural = "s" if count != 1 else ""
        if diagnosis.detail.fixed is not None:
            return f"{count} cause{plural} found before the fixes"
        return f"{count} cause{plural} found"
    return "No cause found" if diagnosis.verdict.state == "saturated" else "No cause proven"


def _render_no_findings(diagnosis: Diagnosis) -> Markup:
    if diagnosis.verdict.state == "saturated":
        text = "No cause worth more than 3% was found among the checks that this recording allows."
        return tag("p", text, class_="calm")
    text = "There may be causes that this recording cannot prove; they are listed below."
    return tag("p", text, class_="note")


def _render_card(finding: Finding, diagnosis: Diagnosis, number: int | None) -> Markup:
    look = LOOKS[finding.bucket]
    return tag(
        "article",
        tag(
            "p",
            tag("span", finding.severity, class_=f"badge {finding.severity}"),
            tag("span", tag("i", class_=f"dot {finding.bucket}"), look.title, class_="bucket"),
            tag("code", finding.cause),
            tag("span", f"confidence {finding.confidence:.0%}", class_="sure"),
            class_="meta",
        ),
        tag("h3", f"{number}. " if number else None, finding.title or finding.cause),
        tag("p", finding.headline, class_="lead"),
        _render_lost(finding, getattr(diagnosis.attribution, finding.bucket)),
        tag("p", "removing it entirely: ", tag("b", format_removal(finding.removal)))
        if finding.removal
        else None,
        _render_places(finding.where),
        [_render_fix(fix, finding, diagnosis.trials) for fix in in_turn(finding, diagnosis.trials)],
        _render_evidence(finding.evidence, open_=number == 1),
        class_=f"card {finding.severity}",
        style=f"--accent:{look.colour}",
    )


def _render_lost(finding: Finding, bucket: float) -> Markup:
    """The lost interval on the scale of the step, in front of the share of its bucket."""
    low, high = finding.lost.low, finding.lost.high
    title = LOOKS[finding.bucket].title
    return tag(
        "div",
        tag(
            "span",
            "costs ",
            tag("b", format_interval(finding.lost)),
            f" of the step{overlap_remark(finding)}",
        ),
        tag(
            "span",
            tag("span", class_="held", style=f"width:{bucket * 100:.2f}%"),
            tag("span", class_="low", style=f"width:{low * 100:.2f}%"),
            tag(
                "span",
                class_="high",
                style=f"left:{low * 100:.2f}%;width:{(high - low) * 100:.2f}%",
            ),
            class_="range",
            title=f"{format_interval(finding.lost)} of {format_percent(bucket)} in {title}",
        ),
        class_="lost",
    )


def _render_places(places: list[Place]) -> Markup | None:
    if not places:
        return None
    more = len(places) - _PLACES
    return tag(
        "p",
        [tag("code", format_place(where)) for where in places[:_PLACES]],
        tag("small", f"and {more} more places") if more > 0 else None,
        class_="where",
    )


def _render_fix(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> Markup:
    outcome = describe_outcome(fix, finding, trials)
    label = "Tried: " if is_rejected(fix, finding, trials) else "Fix: "
    edits = [tag("code", f"{edit.knob} = {_format_value(edit.value)}") for edit in fix.edits]
    return tag(
        "div",
        tag("p", tag("b", label), fix.summary),
        tag("p", tag("b", f"{outcome[:1].upper()}{outcome[1:]}.")) if outcome else None,
        _render_gain(fix),
        tag(
            "p",
            tag(
                "span",
                CONSENTS[fix.consent],
                class_=f"pill {fix.consent}",
                title=f"consent: {fix.consent}",
            ),
            tag("span", "automatic" if fix.automatic else "by hand", class_="pill"),
            edits,
            class_="pills",
        ),
        tag("p", tag("b", "Risk: "), fix.risk, class_="risk") if fix.risk else None,
        class_="fix",
    )


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _render_gain(fix: ProposedFix) -> Markup | None:
    predicted = fix.predicted
    if predicted is None:
        return None
    top = max(2.0, predicted.high)
    left, middle, right = (
        (max(1.0, factor) - 1) / (top - 1) * 100
        for factor in (predicted.low, predicted.speedup, predicted.high)
    )
    return tag(
        "div",
        tag(
            "span",
            "predicted ",
            tag("b", f"{format_factor(predicted.speedup)}×"),
            format_bracketed(predicted.low, predicted.high),
        ),
        tag(
            "span",
            tag(
                "span", class_="high", style=f"left:{left:.1f}%;width:{max(right - left, 0.5):.1f}%"
            ),
            tag("span", class_="mid", style=f"left:{middle:.1f}%"),
            class_="range gain",
            title=f"scale: 1× to {top:.1f}×",
        ),
        tag("small", f"from: {method}") if (method := format_method(predicted)) else None,
        class_="lost",
    )


def _render_evidence(evidence: list[Evidence], *, open_: bool) -> Markup | None:
    if not evidence:
        return None
    rows = [
        tag(
            "tr",
            tag("td", item.quantity),
            tag(
                "td", format_evidence(item), class_="words" if isinstance(item.value, str) else "n"
            ),
            tag("td", "" if item.samples is None else f"{item.samples:,}", class_="n"),
            tag("td", item.window or ""),
            tag("td", item.source or ""),
        )
        for item in evidence
    ]
    heads = ("measured", "value", "samples", "window", "source")
    cells = [tag("th", h, class_="n" if h in ("value", "samples") else None) for h in heads]
    noun = "quantities" if len(evidence) != 1 else "quantity"
    return tag(
        "details",
        tag("summary", f"Evidence ({len(evidence)} {noun})"),
        render_table(cells, rows),
        open=open_,
    )
