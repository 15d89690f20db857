"""What the recording could not tell, and what was looked at."""

from __future__ import annotations

from collections import defaultdict

from whyidle.exporters._html.element import Markup, element
from whyidle.exporters._number_format import NONE, format_percent, format_seconds
from whyidle.model.diagnosis import Diagnosis


def render_abstentions(diagnosis: Diagnosis) -> Markup | None:
    """Causes that could not be judged, by what would settle them."""
    if not diagnosis.abstentions:
        return None
    by_need: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in diagnosis.abstentions:
        by_need[", ".join(item.missing), item.how].append(item.cause)
    rows = [
        element(
            "li",
            element("p", [element("code", cause) for cause in causes], class_="where"),
            element(
                "p", "needs ", element("b", missing.replace("_", " ")), ": " if how else "", how
            ),
        )
        for (missing, how), causes in sorted(by_need.items(), key=lambda kv: -len(kv[1]))
    ]
    return element(
        "section",
        element("h2", "What this recording could not tell"),
        element(
            "p",
            "These causes were neither found nor ruled out, because evidence is missing.",
            class_="note",
        ),
        element("ul", rows, class_="needs"),
        id="abstentions",
    )


def render_coverage(diagnosis: Diagnosis) -> Markup:
    """What was looked at, and how far it can be trusted."""
    told, run = diagnosis.coverage, diagnosis.run
    facts = [
        ("recordings", [element("code", source) for source in run.sources] or None),
        ("evidence", ", ".join(signal.replace("_", " ") for signal in told.signals) or NONE),
        ("recorded", format_seconds(run.duration_s) if run.duration_s is not None else None),
        ("hosts", ", ".join(run.hosts) or None),
        (
            "clock error",
            format_seconds(told.clock_error_s) if told.clock_error_s is not None else None,
        ),
        (
            "our overhead",
            format_percent(told.overhead_ratio) if told.overhead_ratio is not None else None,
        ),
        ("made by", f"whyidle {run.whyidle}, {diagnosis.schema}, {run.id}"),
    ]
    return element(
        "section",
        element("h2", "What was looked at"),
        element("ul", [element("li", note) for note in told.notes], class_="notes")
        if told.notes
        else None,
        element(
            "dl",
            [(element("dt", key), element("dd", value)) for key, value in facts if value],
            class_="facts",
        ),
        id="coverage",
    )
