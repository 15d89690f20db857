"""What the recording could not tell, and what was looked at."""

from __future__ import annotations

from collections import defaultdict

from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._words import NONE, percent, seconds
from whyidle.model.diagnosis import Diagnosis


def abstentions(diagnosis: Diagnosis) -> Markup | None:
    """Causes that could not be judged, by what would settle them."""
    if not diagnosis.abstentions:
        return None
    by_need: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in diagnosis.abstentions:
        by_need[", ".join(item.missing), item.how].append(item.cause)
    rows = [
        e(
            "li",
            e("p", [e("code", cause) for cause in causes], class_="where"),
            e("p", "needs ", e("b", missing.replace("_", " ")), ": " if how else "", how),
        )
        for (missing, how), causes in sorted(by_need.items(), key=lambda kv: -len(kv[1]))
    ]
    return e(
        "section",
        e("h2", "What this recording could not tell"),
        e(
            "p",
            "These causes were neither found nor ruled out, because evidence is missing.",
            class_="note",
        ),
        e("ul", rows, class_="needs"),
        id="abstentions",
    )


def coverage(diagnosis: Diagnosis) -> Markup:
    """What was looked at, and how far it can be trusted."""
    told, run = diagnosis.coverage, diagnosis.run
    facts = [
        ("recordings", [e("code", source) for source in run.sources] or None),
        ("evidence", ", ".join(signal.replace("_", " ") for signal in told.signals) or NONE),
        ("recorded", seconds(run.duration_s) if run.duration_s is not None else None),
        ("hosts", ", ".join(run.hosts) or None),
        ("clock error", seconds(told.clock_error_s) if told.clock_error_s is not None else None),
        ("our overhead", percent(told.overhead_ratio) if told.overhead_ratio is not None else None),
        ("made by", f"whyidle {run.whyidle}, {diagnosis.schema}, {run.id}"),
    ]
    return e(
        "section",
        e("h2", "What was looked at"),
        e("ul", [e("li", note) for note in told.notes], class_="notes") if told.notes else None,
        e("dl", [(e("dt", key), e("dd", value)) for key, value in facts if value], class_="facts"),
        id="coverage",
    )
