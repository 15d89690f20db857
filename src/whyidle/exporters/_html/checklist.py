"""The checklist on the page."""

from __future__ import annotations

from whyidle.exporters._checklist import answer_lines
from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.model.diagnosis import Diagnosis

BADGES = {"yes": "info", "no": "critical", "partly": "warning", "unknown": ""}


def render_checklist(diagnosis: Diagnosis) -> Markup | None:
    """Render what guides tell people to check, answered from this run, folded."""
    if diagnosis.command_failed:
        return None
    rows = answer_lines(diagnosis)
    cells = [
        tag(
            "tr",
            tag("td", tag("span", row.answer, class_=f"badge {BADGES[row.answer]}".strip())),
            tag("td", row.question),
            tag("td", row.text),
            tag("td", tag("code", row.cause) if row.cause else None),
        )
        for row in rows
    ]
    bad = sum(row.answer == "no" for row in rows)
    dark = sum(row.answer == "unknown" for row in rows)
    summary = f"{len(rows)} lines: {bad} to look at, {dark} unknown"
    return tag(
        "section",
        tag("h2", "Checklist"),
        tag(
            "details",
            tag("summary", summary),
            render_table(["", "what guides tell people to check", "this run", "finding"], cells),
        ),
        id="checklist",
    )
