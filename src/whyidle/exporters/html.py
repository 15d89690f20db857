"""One self-contained HTML page that opens offline."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from whyidle.exporters._html import (
    checklist,
    coverage,
    findings,
    fixed_job,
    kernel_tables,
    line_table,
    memory,
    model,
    pipeline_table,
    ranks,
    summary,
    timeline,
    trials,
)
from whyidle.exporters._html.element import Markup, script_text, tag
from whyidle.exporters._html.page import assemble_page, render_masthead
from whyidle.exporters._relative_paths import shorten_paths
from whyidle.exporters._trials_page import summarize_outcome
from whyidle.model.diagnosis import Diagnosis


def render(diagnosis: Diagnosis) -> str:
    """Render the page of a diagnosis."""
    parts = render_parts(diagnosis)
    body = [render_masthead(parts.about), tag("main", parts.sections), parts.data]
    return assemble_page(parts.title, body, diagnosis.run.whyidle)


class PageParts(NamedTuple):
    """A page without its frame. ``data`` is what the page's script reads."""

    title: str
    about: str
    sections: list[Markup | None]
    data: Markup


def render_parts(diagnosis: Diagnosis) -> PageParts:
    """Render the parts of a page, for another frame."""
    diagnosis = shorten_paths(diagnosis)
    return PageParts(
        title=summarize_outcome(diagnosis) or diagnosis.verdict.headline,
        about=summary.describe_run(diagnosis),
        sections=_page_sections(diagnosis),
        data=tag("script", script_text(_page_data(diagnosis)), type="application/json", id="data"),
    )


def _page_sections(diagnosis: Diagnosis) -> list[Markup | None]:
    return [
        fixed_job.verdict(diagnosis) or summary.render_verdict(diagnosis),
        memory.render_death(diagnosis),
        summary.render_attribution(diagnosis),
        trials.render_trials(diagnosis),
        line_table.render_lines(diagnosis),
        pipeline_table.render_pipeline(diagnosis),
        findings.render_findings(diagnosis),
        timeline.render_timeline(diagnosis),
        memory.render_memory(diagnosis),
        model.render_model(diagnosis),
        summary.render_steps(diagnosis),
        ranks.render_ranks(diagnosis),
        kernel_tables.render_kernels(diagnosis),
        checklist.render_checklist(diagnosis),
        coverage.render_abstentions(diagnosis),
        coverage.render_coverage(diagnosis),
    ]


def _page_data(diagnosis: Diagnosis) -> str:
    data = {
        "timeline": timeline.timeline_data(diagnosis.detail.picture),
        "ranks": ranks.rank_data(diagnosis),
    }
    return msgspec.json.encode(data).decode()
