"""Fixes that were tried: predicted beside measured, and where the step goes before and after."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._html.summary import shares
from whyidle.exporters._trials import gained, promised
from whyidle.exporters._words import NONE
from whyidle.model.diagnosis import Diagnosis, Healed, Trial

HEADS = ("fix", "for", "consent", "predicted", "measured", "numbers", "kept")


def trials(diagnosis: Diagnosis) -> Markup | None:
    """The table, and the two bars where something was kept."""
    if not diagnosis.trials:
        return None
    healed = diagnosis.detail.healed
    return e(
        "section",
        e("h2", "What was tried"),
        *(_healed(diagnosis, healed) if healed else ()),
        e(
            "div",
            e(
                "table",
                e("thead", e("tr", [e("th", head) for head in HEADS])),
                e("tbody", [_trial(trial) for trial in diagnosis.trials]),
            ),
            class_="scroll",
        ),
        id="trials",
    )


def _healed(diagnosis: Diagnosis, healed: Healed) -> list[Markup | None]:
    left = [e("li", sentence) for sentence in healed.left]
    return [
        e("p", e("b", "All of it together: "), gained(healed.speedup, healed.low, healed.high)),
        e("p", "before", class_="note"),
        shares(diagnosis.attribution),
        e("p", "after", class_="note"),
        shares(healed.attribution),
        e("p", "What is left:", class_="note") if left else None,
        e("ul", left, class_="notes") if left else None,
    ]


def _trial(trial: Trial) -> Markup:
    return e(
        "tr",
        e("td", e("code", trial.treatment), e("br"), trial.summary),
        e("td", e("code", trial.cause) if trial.cause else NONE),
        e("td", trial.consent),
        e("td", promised(trial.promised) if trial.promised else _alone(trial.predicted)),
        e("td", gained(trial.speedup, trial.low, trial.high, trial.pairs or None) or NONE),
        e("td", trial.numerics or NONE),
        e("td", e("b", "yes") if trial.kept else f"no: {trial.why}"),
    )


def _alone(speedup: float | None) -> str:
    return NONE if speedup is None else f"{speedup:.2f}×"
