"""One self-contained HTML page: opens offline, light and dark, on a phone and on paper."""

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
    ranks,
    summary,
    timeline,
    trials,
)
from whyidle.exporters._html.element import Markup, element, script_text
from whyidle.exporters._palette import LOOKS, share_colour, text_colour
from whyidle.exporters._relative_paths import shorten_paths
from whyidle.exporters._trials_page import summarize_outcome
from whyidle.model.diagnosis import Diagnosis

SUFFIXES = (".html", ".htm")
WANTS = "file"


def render(diagnosis: Diagnosis) -> str:
    """The page as text.

    Names in it come from recordings that others made: all text is escaped, and a content security
    policy allows our own script by its hash and nothing else, no network included.
    """
    diagnosis = shorten_paths(diagnosis)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_content_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"whyidle {diagnosis.run.whyidle}"),
        element("title", f"{summarize_outcome(diagnosis) or diagnosis.verdict.headline} · whyidle"),
        element("style", _style_sheet()),
    )
    body = element(
        "body",
        summary.render_masthead(diagnosis),
        element("main", _page_sections(diagnosis)),
        element("script", script_text(_page_data(diagnosis)), type="application/json", id="data"),
        element("script", _page_script()),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _page_sections(diagnosis: Diagnosis) -> list[Markup | None]:
    return [
        fixed_job.verdict(diagnosis) or summary.render_verdict(diagnosis),
        summary.render_attribution(diagnosis),
        trials.render_trials(diagnosis),
        findings.render_findings(diagnosis),
        timeline.render_timeline(diagnosis),
        summary.render_steps(diagnosis),
        ranks.render_ranks(diagnosis),
        kernel_tables.render_kernels(diagnosis),
        coverage.render_abstentions(diagnosis),
        coverage.render_coverage(diagnosis),
    ]


def _page_data(diagnosis: Diagnosis) -> str:
    known = {
        "timeline": timeline.timeline_data(diagnosis.detail.picture),
        "ranks": ranks.rank_data(diagnosis),
    }
    return msgspec.json.encode(known).decode()


@cache
def _style_sheet() -> Markup:
    """The style sheet, with the palette filled in."""
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
