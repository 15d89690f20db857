"""Findings as cards: what is wrong, what it costs, where, and what fixes it."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._remarks import small_and_risky
from whyidle.exporters._tried import advised, in_turn, rejected, tried
from whyidle.exporters._words import (
    bracketed,
    elsewhere,
    factor,
    interval,
    measured,
    method,
    percent,
    place,
)
from whyidle.model.diagnosis import Diagnosis, Evidence, Finding, Place, ProposedFix, Trial

CONSENT = {
    "none": "same numbers",
    "rounding": "same mathematics, other rounding or random order",
    "numerics": "changes precision",
    "convergence": "may change learning",
}
_PLACES = 6


def findings(diagnosis: Diagnosis) -> Markup:
    """All findings, the small and the risky ones folded away."""
    serious = [f for f in advised(diagnosis) if f.severity != "info"]
    small, risky = small_and_risky(diagnosis.findings)
    return e(
        "section",
        e("h2", _title(len(serious), diagnosis)),
        None if serious else _nothing(diagnosis),
        [_card(f, diagnosis, number) for number, f in enumerate(serious, 1)],
        _folded("smaller thing", "under 3%", small, diagnosis),
        _folded("thing", "may as well slow the job down", risky, diagnosis),
        id="findings",
    )


def _folded(noun: str, why: str, remarks: list[Finding], diagnosis: Diagnosis) -> Markup | None:
    if not remarks:
        return None
    return e(
        "details",
        e("summary", f"{len(remarks)} {noun}{'s' if len(remarks) != 1 else ''} ({why})"),
        [_card(finding, diagnosis, None) for finding in remarks],
    )


def _title(count: int, diagnosis: Diagnosis) -> str:
    if count:
        was = " before" if diagnosis.detail.fixed is not None else ""
        return f"{count} cause{'s' if count != 1 else ''} worth fixing{was}"
    return "Nothing worth fixing" if diagnosis.verdict.state == "saturated" else "No cause proven"


def _nothing(diagnosis: Diagnosis) -> Markup:
    if diagnosis.verdict.state == "saturated":
        return e("p", "Nothing that would save more than 3% of the step was found.", class_="calm")
    said = "That is not the same as there being none: see below what could not be told."
    return e("p", said, class_="note")


def _card(finding: Finding, diagnosis: Diagnosis, number: int | None) -> Markup:
    look = LOOKS[finding.bucket]
    return e(
        "article",
        e(
            "p",
            e("span", finding.severity, class_=f"badge {finding.severity}"),
            e("span", e("i", class_=f"dot {finding.bucket}"), look.title, class_="bucket"),
            e("code", finding.cause),
            e("span", f"confidence {finding.confidence:.0%}", class_="sure"),
            class_="meta",
        ),
        e("h3", f"{number}. " if number else None, finding.title or finding.cause),
        e("p", finding.headline, class_="lead"),
        _lost(finding, getattr(diagnosis.attribution, finding.bucket)),
        _places(finding.where),
        [_fix(fix, finding, diagnosis.trials) for fix in in_turn(finding, diagnosis.trials)],
        _evidence(finding.evidence, open_=number == 1),
        class_=f"card {finding.severity}",
        style=f"--accent:{look.colour}",
    )


def _lost(finding: Finding, bucket: float) -> Markup:
    """The lost interval on the scale of the step, before what its whole bucket holds."""
    low, high = finding.lost.low, finding.lost.high
    title = LOOKS[finding.bucket].title
    return e(
        "div",
        e("span", "costs ", e("b", interval(finding.lost)), f" of the step{elsewhere(finding)}"),
        e(
            "span",
            e("span", class_="held", style=f"width:{bucket * 100:.2f}%"),
            e("span", class_="low", style=f"width:{low * 100:.2f}%"),
            e(
                "span",
                class_="high",
                style=f"left:{low * 100:.2f}%;width:{(high - low) * 100:.2f}%",
            ),
            class_="range",
            title=f"{interval(finding.lost)}; {title} in all holds {percent(bucket)}",
        ),
        class_="lost",
    )


def _places(places: list[Place]) -> Markup | None:
    if not places:
        return None
    more = len(places) - _PLACES
    return e(
        "p",
        [e("code", place(where)) for where in places[:_PLACES]],
        e("small", f"and {more} more places") if more > 0 else None,
        class_="where",
    )


def _fix(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> Markup:
    told, against = tried(fix, finding, trials), rejected(fix, finding, trials)
    edits = [e("code", f"{edit.knob} = {_value(edit.value)}") for edit in fix.edits]
    return e(
        "div",
        e("p", e("b", "Tried: " if against else "Fix: "), fix.summary),
        e("p", e("b", f"{told[:1].upper()}{told[1:]}.")) if told else None,
        _gain(fix),
        e(
            "p",
            e(
                "span",
                CONSENT[fix.consent],
                class_=f"pill {fix.consent}",
                title=f"consent: {fix.consent}",
            ),
            e("span", "mechanical change" if fix.automatic else "by hand", class_="pill"),
            edits,
            class_="pills",
        ),
        e("p", e("b", "Risk: "), fix.risk, class_="risk") if fix.risk else None,
        class_="fix",
    )


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _gain(fix: ProposedFix) -> Markup | None:
    """The predicted speed-up with its interval, on a scale from 1x to twice that or more."""
    told = fix.predicted
    if told is None:
        return None
    top = max(2.0, told.high)
    left, right = ((max(1.0, x) - 1) / (top - 1) * 100 for x in (told.low, told.high))
    middle = (max(1.0, told.speedup) - 1) / (top - 1) * 100
    return e(
        "div",
        e(
            "span",
            "predicted ",
            e("b", f"{factor(told.speedup)}×"),
            bracketed(told.low, told.high),
        ),
        e(
            "span",
            e("span", class_="high", style=f"left:{left:.1f}%;width:{max(right - left, 0.5):.1f}%"),
            e("span", class_="mid", style=f"left:{middle:.1f}%"),
            class_="range gain",
            title=f"scale: 1× to {top:.1f}×",
        ),
        e("small", f"by: {told_by}") if (told_by := method(told)) else None,
        class_="lost",
    )


def _evidence(evidence: list[Evidence], *, open_: bool) -> Markup | None:
    if not evidence:
        return None
    rows = [
        e(
            "tr",
            e("td", item.quantity),
            e("td", measured(item), class_="words" if isinstance(item.value, str) else "n"),
            e("td", "" if item.samples is None else f"{item.samples:,}", class_="n"),
            e("td", item.window or ""),
            e("td", item.source or ""),
        )
        for item in evidence
    ]
    heads = ("measured", "value", "samples", "over", "seen in")
    head = e("tr", [e("th", h, class_="n" if h in ("value", "samples") else None) for h in heads])
    table = e("table", e("thead", head), e("tbody", rows))
    plural = "s" if len(evidence) != 1 else ""
    return e(
        "details",
        e("summary", f"Evidence ({len(evidence)} measurement{plural})"),
        e("div", table, class_="scroll"),
        open=open_,
    )
