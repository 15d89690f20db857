"""One self-contained HTML page that opens offline."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from whyidle.model.diagnosis import Diagnosis
from whyidle.reports._html import ranks, summary, timeline
from whyidle.reports._html.element import Markup, script_text, tag
from whyidle.reports._html.page import assemble_page, render_masthead
from whyidle.reports._html.sections import render_parts as render_sections
from whyidle.reports._relative_paths import shorten_paths
from whyidle.reports._report import report_parts
from whyidle.reports._trials_page import summarize_outcome


def render(diagnosis: Diagnosis) -> str:
    """Render the page of a diagnosis."""
    parts = render_parts(diagnosis)
    body = [render_masthead(parts.about), tag("main", parts.sections), parts.data]
    return assemble_page(parts.title, body, diagnosis.run.whyidle)


class PageParts(NamedTuple):
    """A page without its frame. ``data`` is what the page's script reads."""

    title: str
    about: str
    sections: list[Markup]
    data: Markup


def render_parts(diagnosis: Diagnosis) -> PageParts:
    """Render the parts of a page, for another frame."""
    diagnosis = shorten_paths(diagnosis)
    charts = {
        "timeline": timeline.timeline_data(diagnosis.detail.picture),
        "ranks": ranks.rank_data(diagnosis),
    }
    data = script_text(msgspec.json.encode(charts).decode())
    return PageParts(
        title=summarize_outcome(diagnosis) or diagnosis.verdict.headline,
        about=summary.describe_run(diagnosis),
        sections=render_sections(report_parts(diagnosis)),
        data=tag("script", data, type="application/json", id="data"),
    )
