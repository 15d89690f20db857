"""One self-contained HTML page: opens offline, light and dark, on a phone and on paper."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

import msgspec

from whyidle.exporters._html import (
    findings,
    fixed_job,
    notes,
    ranks,
    summary,
    tables,
    timeline,
    trials,
)
from whyidle.exporters._html.element import Markup, e, script_text
from whyidle.exporters._near import near
from whyidle.exporters._palette import LOOKS, ink, ramp
from whyidle.exporters._trials import outcome
from whyidle.model.diagnosis import Diagnosis

SUFFIXES = (".html", ".htm")
WANTS = "file"


def render(diagnosis: Diagnosis) -> str:
    """The page as text.

    Names in it come from recordings that others made: all text is escaped, and a content security
    policy allows our own script by its hash and nothing else, no network included.
    """
    diagnosis = near(diagnosis)
    head = e(
        "head",
        e("meta", charset="utf-8"),
        e("meta", http_equiv="Content-Security-Policy", content=_policy()),
        e("meta", name="viewport", content="width=device-width, initial-scale=1"),
        e("meta", name="color-scheme", content="light dark"),
        e("meta", name="generator", content=f"whyidle {diagnosis.run.whyidle}"),
        e("title", f"{outcome(diagnosis) or diagnosis.verdict.headline} · whyidle"),
        e("style", _style()),
    )
    body = e(
        "body",
        summary.masthead(diagnosis),
        e("main", _sections(diagnosis)),
        e("script", script_text(_data(diagnosis)), type="application/json", id="data"),
        e("script", _script()),
    )
    return f"<!doctype html>\n{e('html', head, body, lang='en')}\n"


def _sections(diagnosis: Diagnosis) -> list[Markup | None]:
    return [
        fixed_job.verdict(diagnosis) or summary.verdict(diagnosis),
        summary.attribution(diagnosis),
        trials.trials(diagnosis),
        findings.findings(diagnosis),
        timeline.timeline(diagnosis),
        summary.steps(diagnosis),
        ranks.ranks(diagnosis),
        tables.kernels(diagnosis),
        notes.abstentions(diagnosis),
        notes.coverage(diagnosis),
    ]


def _data(diagnosis: Diagnosis) -> str:
    known = {"timeline": timeline.data(diagnosis.detail.picture), "ranks": ranks.data(diagnosis)}
    return msgspec.json.encode(known).decode()


@cache
def _style() -> Markup:
    """The style sheet, with the palette filled in."""
    colours = [
        f".{key}.seg,.{key}.dot{{background-color:{look.colour};color:{ink(look.colour)}}}"
        f".fill-{key}{{fill:{look.colour}}}"
        for key, look in LOOKS.items()
    ]
    levels = ranks.LEVELS
    heat = [f".heat{i}{{fill:{ramp((i + 0.5) / levels)}}}" for i in range(levels)]
    return Markup(_resource("page.css") + "".join(colours + heat))


@cache
def _script() -> Markup:
    return Markup(_resource("page.js"))


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return files("whyidle.exporters._html").joinpath(name).read_text(encoding="utf-8")
