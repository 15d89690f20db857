"""The lines of the user's program in a step."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, render_table, tag
from whyidle.exporters._line_table import TITLE, TableRow, shows_waits, table_rows
from whyidle.model.diagnosis import Diagnosis


def render_lines(diagnosis: Diagnosis) -> Markup | None:
    """Render the lines; None if no stack was sampled."""
    rows = table_rows(diagnosis)
    if not rows:
        return None
    on_device = shows_waits(rows)
    heads = [tag("th", "time", class_="n"), tag("th", "share", class_="n")]
    heads += [tag("th", "device waits", class_="n")] if on_device else []
    return tag(
        "section",
        tag("h2", TITLE[:1].upper() + TITLE[1:]),
        render_table(
            [*heads, "what it does", "line", ""], [_render_row(row, on_device) for row in rows]
        ),
        id="lines",
    )


def _render_row(row: TableRow, on_device: bool) -> Markup:
    return tag(
        "tr",
        tag("td", row.time, class_="n"),
        tag("td", row.share, class_="n"),
        tag("td", row.waits, class_="n") if on_device else None,
        tag("td", tag("b", row.what) if row.reporting else row.what),
        tag("td", tag("code", row.line)),
        tag("td", tag("code", row.text, title=row.text) if row.text else None, class_="name"),
    )
