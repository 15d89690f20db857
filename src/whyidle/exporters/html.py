"""One self-contained HTML page that opens offline."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from whyidle.exporters._html import (
    coverage,
    findings,
    fixed_job,
    kernel_tables,
    line_table,
    ranks,
    summary,
    timeline,
    trials,
)
from whyidle.exporters._html.element import Markup, script_text, tag
from whyidle.exporters._palette import LOOKS, share_colour, text_colour
from whyidle.exporters._relative_paths import shorten_paths
from whyidle.exporters._trials_page import summarize_outcome
from whyidle.model.diagnosis import Diagnosis


def render(diagnosis: Diagnosis) -> str:
    """Render the page. All text is escaped, and a content security policy allows only the page's
    own script, by its hash, and no network."""
    diagnosis = shorten_paths(diagnosis)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_content_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"whyidle {diagnosis.run.whyidle}"),
        tag("title", f"{summarize_outcome(diagnosis) or diagnosis.verdict.headline} · whyidle"),
        tag("style", _style_sheet()),
    )
    body = tag(
        "body",
        summary.render_masthead(diagnosis),
        tag("main", _page_sections(diagnosis)),
        tag("script", script_text(_page_data(diagnosis)), type="application/json", id="data"),
        tag("script", _page_script()),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _page_sections(diagnosis: Diagnosis) -> list[Markup | None]:
    return [
        fixed_job.verdict(diagnosis) or summary.render_verdict(diagnosis),
        summary.render_attribution(diagnosis),
        trials.render_trials(diagnosis),
        line_table.render_lines(diagnosis),
        findings.render_findings(diagnosis),
        timeline.render_timeline(diagnosis),
        summary.render_steps(diagnosis),
        ranks.render_ranks(diagnosis),
        kernel_tables.render_kernels(diagnosis),
        coverage.render_abstentions(diagnosis),
        coverage.render_coverage(diagnosis),
    ]


def _page_data(diagnosis: Diagnosis) -> str:
    data = {
        "timeline": timeline.timeline_data(diagnosis.detail.picture),
        "ranks": ranks.rank_data(diagnosis),
    }
    return msgspec.json.encode(data).decode()


@cache
def _style_sheet() -> Markup:
    colours = [
        f".{key}.seg,.{key}.dot{{background-color:{look.colour};color:{text_colour(look.colour)}}}"
        f".fill-{key}{{fill:{look.colour}}}"
        for key, look in LOOKS.items()
    ]
    levels = ranks.LEVELS
    heat = [f".heat{i}{{fill:{share_colour((i + 0.5) / levels)}}}" for i in range(levels)]
    return Markup(_read_resource("page.css") + "".join(colours + heat))


@cache
def _page_script() -> Markup:
    return Markup(_read_resource("page.js"))


def _content_policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_page_script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _read_resource(name: str) -> str:
    return files("whyidle.exporters._html").joinpath(name).read_text(encoding="utf-8")
