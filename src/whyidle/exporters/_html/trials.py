"""Fixes that were tried: predicted beside measured, and where the step goes before and after."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._html.summary import shares
from whyidle.exporters._trials import (
    UNTRIED,
    came,
    foretold,
    fruitless,
    gained,
    memory,
    savings,
    searched,
    split,
)
from whyidle.exporters._words import CONSENTS, NONE
from whyidle.model.diagnosis import Diagnosis, FixedJob, Trial

HEADS = ("fix", "consent", "predicted", "measured", "numbers", "kept")
ASIDE = ("fix", "predicted", "why not")


def trials(diagnosis: Diagnosis) -> Markup | None:
    """The two bars where something was kept, and a table of what was tried and what was not."""
    if not diagnosis.trials:
        return None
    fixed = diagnosis.detail.fixed
    tried, untried = split(diagnosis)
    return e(
        "section",
        e("h2", "What was tried"),
        e("p", f"{nothing}.") if (nothing := fruitless(diagnosis)) else None,
        *(_fixed_job(diagnosis, fixed) if fixed else ()),
        _table(HEADS, [_trial(trial) for trial in tried]) if tried else None,
        e("p", "Not tried:", class_="note") if untried else None,
        _table(ASIDE, [_aside(trial) for trial in untried]) if untried else None,
        id="trials",
    )


def _table(heads: Sequence[str], rows: list[Markup]) -> Markup:
    head = e("thead", e("tr", [e("th", name) for name in heads]))
    return e("div", e("table", head, e("tbody", rows)), class_="scroll")


def _fixed_job(diagnosis: Diagnosis, fixed: FixedJob) -> list[Markup | None]:
    left = [e("li", sentence) for sentence in fixed.left]
    gain = gained(fixed.speedup, fixed.low, fixed.high) or UNTRIED
    return [
        e("p", e("b", "All of it together: "), gain),
        *(e("p", f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in savings(fixed)),
        e("p", "before", class_="note"),
        shares(diagnosis.attribution),
        e("p", "after", class_="note"),
        shares(fixed.attribution),
        e("p", "What is left:", class_="note") if left else None,
        e("ul", left, class_="notes") if left else None,
    ]


def _name(trial: Trial) -> Markup:
    cause = [" for ", e("code", trial.cause)] if trial.cause else []
    tried = [e("br"), f"tried: {text}"] if (text := searched(trial)) else []
    return e("td", e("code", trial.fix), *cause, e("br"), trial.summary, *tried)


def _trial(trial: Trial) -> Markup:
    return e(
        "tr",
        _name(trial),
        e("td", CONSENTS[trial.consent]),
        e("td", _predicted(trial)),
        e("td", came(trial) or NONE),
        e("td", trial.numerics or NONE),
        e("td", e("b", "yes") if trial.kept else f"no: {trial.why}", *_seen(trial)),
    )


def _seen(trial: Trial) -> list[Markup | str]:
    held = [f"memory: {told}"] if (told := memory(trial)) else []
    return [part for note in (*held, *trial.notes) for part in (e("br"), note)]


def _aside(trial: Trial) -> Markup:
    return e("tr", _name(trial), e("td", _predicted(trial)), e("td", trial.why))


def _predicted(trial: Trial) -> str:
    return foretold(trial) or _alone(trial.predicted)


def _alone(speedup: float | None) -> str:
    return NONE if speedup is None else f"{speedup:.2f}×"
