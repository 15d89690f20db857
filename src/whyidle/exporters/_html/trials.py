"""The trials: predicted and measured gains, and the attribution before and after."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, render_table, tag
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
UNTRIED_HEADS = ("fix", "predicted", "reason")


def render_trials(diagnosis: Diagnosis) -> Markup | None:
    """Render the kept fixes together, and the tables of tried and untried fixes."""
    if not diagnosis.trials:
        return None
    fixed = diagnosis.detail.fixed
    tried, untried = split_by_run(diagnosis)
    return tag(
        "section",
        tag("h2", "Trials"),
        tag("p", f"{text}.") if (text := explain_no_gain(diagnosis)) else None,
        *(_fixed_job(diagnosis, fixed) if fixed else ()),
        render_table(HEADS, [_render_trial(trial) for trial in tried]) if tried else None,
        tag("p", "Not tried:", class_="note") if untried else None,
        render_table(UNTRIED_HEADS, [_render_untried(trial) for trial in untried])
        if untried
        else None,
        id="trials",
    )


def _fixed_job(diagnosis: Diagnosis, fixed: FixedJob) -> list[Markup | None]:
    remaining = [tag("li", sentence) for sentence in fixed.left]
    gain = format_gain(fixed.speedup, fixed.low, fixed.high) or UNTRIED
    return [
        tag("p", tag("b", "All kept fixes together: "), gain),
        *(tag("p", f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in format_savings(fixed)),
        tag("p", "before", class_="note"),
        render_shares(diagnosis.attribution),
        tag("p", "after", class_="note"),
        render_shares(fixed.attribution),
        tag("p", "Remaining:", class_="note") if remaining else None,
        tag("ul", remaining, class_="notes") if remaining else None,
    ]


def _render_trial_name(trial: Trial) -> Markup:
    cause = [" for ", tag("code", trial.cause)] if trial.cause else []
    search = [tag("br"), f"search: {text}"] if (text := format_search(trial)) else []
    return tag("td", tag("code", trial.fix), *cause, tag("br"), trial.summary, *search)


def _render_trial(trial: Trial) -> Markup:
    return tag(
        "tr",
        _render_trial_name(trial),
        tag("td", CONSENTS[trial.consent]),
        tag("td", _format_predicted(trial)),
        tag("td", format_measurement(trial) or NONE),
        tag("td", trial.numerics or NONE),
        tag("td", tag("b", "yes") if trial.kept else f"no: {trial.why}", *_trial_notes(trial)),
    )


def _trial_notes(trial: Trial) -> list[Markup | str]:
    memory = [f"memory: {text}"] if (text := format_memory(trial)) else []
    return [part for note in (*memory, *trial.notes) for part in (tag("br"), note)]


def _render_untried(trial: Trial) -> Markup:
    return tag(
        "tr", _render_trial_name(trial), tag("td", _format_predicted(trial)), tag("td", trial.why)
    )


def _format_predicted(trial: Trial) -> str:
    return format_prediction(trial) or (f"{trial.predicted:.2f}×" if trial.predicted else NONE)
