"""Fixes that were tried: predicted beside measured, and where the step goes before and after."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._html.summary import render_shares
from whyidle.exporters._number_format import CONSENTS, NONE
from whyidle.exporters._trials_page import (
    UNTRIED,
    explain_no_gain,
    format_gain,
    format_measurement,
    format_memory,
    format_prediction,
    format_savings,
    format_search,
    split_by_run,
)
from whyidle.model.diagnosis import Diagnosis, FixedJob, Trial

HEADS = ("fix", "consent", "predicted", "measured", "numbers", "kept")
ASIDE = ("fix", "predicted", "why not")


def render_trials(diagnosis: Diagnosis) -> Markup | None:
    """The two bars where something was kept, and a table of what was tried and what was not."""
    if not diagnosis.trials:
        return None
    fixed = diagnosis.detail.fixed
    tried, untried = split_by_run(diagnosis)
    return element(
        "section",
        element("h2", "What was tried"),
        element("p", f"{nothing}.") if (nothing := explain_no_gain(diagnosis)) else None,
        *(_fixed_job(diagnosis, fixed) if fixed else ()),
        _render_table(HEADS, [_render_trial(trial) for trial in tried]) if tried else None,
        element("p", "Not tried:", class_="note") if untried else None,
        _render_table(ASIDE, [_render_aside(trial) for trial in untried]) if untried else None,
        id="trials",
    )


def _render_table(heads: Sequence[str], rows: list[Markup]) -> Markup:
    head = element("thead", element("tr", [element("th", name) for name in heads]))
    return element("div", element("table", head, element("tbody", rows)), class_="scroll")


def _fixed_job(diagnosis: Diagnosis, fixed: FixedJob) -> list[Markup | None]:
    left = [element("li", sentence) for sentence in fixed.left]
    gain = format_gain(fixed.speedup, fixed.low, fixed.high) or UNTRIED
    return [
        element("p", element("b", "All of it together: "), gain),
        *(
            element("p", f"{sentence[:1].upper()}{sentence[1:]}.")
            for sentence in format_savings(fixed)
        ),
        element("p", "before", class_="note"),
        render_shares(diagnosis.attribution),
        element("p", "after", class_="note"),
        render_shares(fixed.attribution),
        element("p", "What is left:", class_="note") if left else None,
        element("ul", left, class_="notes") if left else None,
    ]


def _render_trial_name(trial: Trial) -> Markup:
    cause = [" for ", element("code", trial.cause)] if trial.cause else []
    tried = [element("br"), f"tried: {text}"] if (text := format_search(trial)) else []
    return element("td", element("code", trial.fix), *cause, element("br"), trial.summary, *tried)


def _render_trial(trial: Trial) -> Markup:
    return element(
        "tr",
        _render_trial_name(trial),
        element("td", CONSENTS[trial.consent]),
        element("td", _format_predicted(trial)),
        element("td", format_measurement(trial) or NONE),
        element("td", trial.numerics or NONE),
        element(
            "td", element("b", "yes") if trial.kept else f"no: {trial.why}", *_trial_notes(trial)
        ),
    )


def _trial_notes(trial: Trial) -> list[Markup | str]:
    held = [f"memory: {told}"] if (told := format_memory(trial)) else []
    return [part for note in (*held, *trial.notes) for part in (element("br"), note)]


def _render_aside(trial: Trial) -> Markup:
    return element(
        "tr",
        _render_trial_name(trial),
        element("td", _format_predicted(trial)),
        element("td", trial.why),
    )


def _format_predicted(trial: Trial) -> str:
    return format_prediction(trial) or _format_single_speedup(trial.predicted)


def _format_single_speedup(speedup: float | None) -> str:
    return NONE if speedup is None else f"{speedup:.2f}×"
