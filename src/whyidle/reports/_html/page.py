"""The frame of a self-contained page: style, script and content security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from whyidle.reports._html.element import Markup, script_text, tag
from whyidle.reports._palette import LEVELS, LOOKS, share_colour, text_colour

NO_CHARTS = '{"timeline":null,"ranks":null}'


def assemble_page(title: str, body: Iterable[Markup], version: str) -> str:
    """Assemble a page. All text is escaped, and a content security policy allows only the page's
    own script, by its hash, and no network."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_content_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"whyidle {version}"),
        tag("title", f"{title} · whyidle"),
        tag("style", style_sheet()),
    )
    whole = tag("body", body, tag("script", page_script()))
    return f"<!doctype html>\n{tag('html', head, whole, lang='en')}\n"


def assemble_plain_page(title: str, about: str, sections: Iterable[Markup], version: str) -> str:
    """Assemble a page without charts of a timeline; ``about`` says in its head what it is of."""
    data = tag("script", script_text(NO_CHARTS), id="data", type="application/json")
    return assemble_page(title, [render_masthead(about), tag("main", sections), data], version)


def render_masthead(about: str) -> Markup:
    """Render the first line of a page."""
    return tag(
        "header",
        tag("span", "why", tag("b", "idle"), class_="brand"),
        tag("span", about, class_="about"),
        tag("button", "◐", id="theme", type="button", title="Light or dark", aria_label="Theme"),
        class_="mast",
    )


@cache
def style_sheet() -> Markup:
    """The style of every page."""
    colours = [
        f".{key}.seg,.{key}.dot{{background-color:{look.colour};color:{text_colour(look.colour)}}}"
        for key, look in LOOKS.items()
    ]
    heat = [f".heat{i}{{fill:{share_colour((i + 0.5) / LEVELS)}}}" for i in range(LEVELS)]
    return Markup(_read_resource("page.css") + "".join(colours + heat))


@cache
def page_script() -> Markup:
    """The script of every page: timeline, tables, light or dark."""
    return Markup(_read_resource("page.js"))


def _content_policy() -> str:
    digest = base64.b64encode(hashlib.sha256(page_script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _read_resource(name: str) -> str:
    return files("whyidle.reports._html").joinpath(name).read_text(encoding="utf-8")
