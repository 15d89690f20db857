"""Renders sections as elements of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import singledispatch

from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.documents.rank_tables import Attribution
from whyidle.reports._html.element import Markup, join_children, tag
from whyidle.reports._html.page import assemble_plain_page
from whyidle.reports._number_format import NONE, format_percent
from whyidle.reports._palette import BADGES, LOOKS
from whyidle.reports._sections import (
    Bar,
    Bars,
    Card,
    Code,
    Commands,
    Facts,
    Figures,
    Folded,
    Headline,
    Items,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Table,
    spans_of,
    text_of,
)

_UNIT = re.compile(r"(?<=\d) (?=\w)")
_CODE = re.compile(r"(.*:\d+ )(\(.*\))")


def render_page(title: str, about: str, parts: Iterable[Part | None], version: str) -> str:
    """Render a self-contained page without the charts of a timeline; ``about`` says in its head
    what it is of."""
    return assemble_plain_page(title, about, render_parts(parts), version)


def render_parts(parts: Iterable[Part | None]) -> list[Markup]:
    """Render parts as elements."""
    return [_element(part) for part in parts if part is not None]


@singledispatch
def _element(part: Part) -> Markup:
    raise TypeError(f"{type(part).__name__} is not a part of a document")


@_element.register
def _(part: Headline) -> Markup:
    return _headline(part)


@_element.register
def _(part: Paragraph) -> Markup:
    label = tag("b", f"{part.label.strip(' :').capitalize()}: ") if part.label else None
    kind = {"dim": "note", "caution": "caution", "bad": "bad"}.get(part.tone)
    return tag("p", label, inline(part.content), class_=kind)


@_element.register
def _(part: Facts) -> Markup:
    rows = [(tag("dt", label), tag("dd", tag("span", inline(line))))
            for label, line in part.rows]  # fmt: skip
    return tag("dl", rows, class_="facts")


@_element.register
def _(part: Figures) -> Markup:
    return render_tiles(list(part.rows))


@_element.register
def _(part: Items) -> Markup:
    return tag("ul", [tag("li", inline(line)) for line in part.lines], class_="notes")


@_element.register
def _(part: Table) -> Markup:
    return render_table(part)


@_element.register
def _(part: Bar) -> Markup:
    return render_bar(part.shares)


@_element.register
def _(part: Bars) -> Markup:
    rows = [
        tag("p", inline(row.name)) + render_bar(row.shares, row.length, "bar thin")
        for row in part.rows
    ]
    seen = [key for key in LOOKS if any(row.shares[key] > 0 for row in part.rows)]
    return Markup("".join(rows) + render_keys(seen))


@_element.register
def _(part: Picture) -> Markup:
    return part.draw() or Markup()


@_element.register
def _(part: Code) -> Markup:
    return tag("pre", tag("code", part.text), class_="code")


@_element.register
def _(part: Commands) -> Markup:
    rows = [tag("li", tag("small", why), tag("code", step)) for step, why in part.steps]
    return tag("ul", rows, class_="commands")


@_element.register
def _(part: Folded) -> Markup:
    inner = render_parts(part.parts)
    return tag("details", tag("summary", part.summary), inner, open=part.open)


@_element.register
def _(part: Card) -> Markup:
    return _card(part)


@_element.register
def _(part: Section) -> Markup:
    title = tag("h2", part.title) if part.title else None
    return tag("section", title, render_parts(part.parts), id=part.id)


def inline(line: Line) -> Markup:
    """A line with its tones."""
    names = {"strong": "b", "code": "code", "dim": "small"}
    parts = [
        tag(names.get(span.tone, "span"), span.text, class_={"good": "good", "bad": "bad",
            "caution": "caution"}.get(span.tone)) if span.tone else span.text
        for span in spans_of(line)
    ]  # fmt: skip
    return join_children(parts)


def _keep_code_together(text: str) -> list[str | Markup]:
    """A heading whose line of code, at its end, begins on a new line where it does not fit."""
    code = _CODE.fullmatch(text)
    return [code[1], tag("span", code[2], class_="whole")] if code else [text]


def _headline(part: Headline) -> Markup:
    state = part.tone if part.tone in BADGES else {"good": "saturated", "bad": "failed"}.get(
        part.tone, "")  # fmt: skip
    badge = tag("p", tag("b", part.badge), class_=f"state {state}".strip()) if part.badge else None
    second = tag("p", part.second, class_="second") if part.second else None
    heading = [badge, tag("h1", *_keep_code_together(part.text)), second]
    if part.accent is None:
        return tag("div", heading)
    return tag("div", heading, class_="verdict", style=f"--accent:{LOOKS[part.accent].colour}")


def render_tiles(tiles: list[tuple[str, str, str]]) -> Markup:
    """Render key numbers, in rows of equal length where they need more than one."""
    rows = -(-len(tiles) // 6)  # six in a row
    columns = -(-len(tiles) // max(rows, 1))
    shown = [
        tag("div", tag("dt", title), tag("dd", _UNIT.sub("\u00a0", value), tag("small", note)))
        for title, value, note in tiles
    ]
    return tag("dl", *shown, class_="tiles", style=f"--columns:{max(columns, 4)}")


def render_table(table: Table) -> Markup:
    """Render a table; on a phone each row becomes a card that keeps the titles of its cells."""
    used = [n for n in range(len(table.columns))
            if any(text_of(row[n]) not in ("", NONE) for row in table.rows)]  # fmt: skip
    columns = [table.columns[n] for n in used]
    heads = [tag("th", c.title, class_="n" if c.number else None) for c in columns]
    rows = [
        tag("tr", [
            tag("td", inline(row[n]), class_="n" if c.number else None, data_title=c.title or None)
            for n, c in zip(used, columns, strict=True)
        ])
        for row in table.rows
    ]  # fmt: skip
    head = tag("thead", tag("tr", heads)) if any(c.title for c in columns) else None
    body = tag("table", head, tag("tbody", rows), class_="cards")
    return tag("div", body, class_="scroll", id=table.id)


def draw_attribution(attribution: Attribution) -> Markup:
    """Render the attribution of a run as a bar."""
    return render_bar({bucket: getattr(attribution, bucket) for bucket in BUCKETS})


def render_bar(shares: Mapping[Bucket, float], length: float = 1.0, kind: str = "bar") -> Markup:
    """Render the shares of a step as a bar, ``length`` (0-1) of the page long."""
    shown = [(LOOKS[key], shares[key], key) for key in LOOKS if shares[key] > 0]
    bar = [
        tag(
            "span",
            tag("span", f"{look.title} {format_percent(share)}") if share >= 0.09 else None,
            class_=f"seg {key}",
            style=f"width:{share * 100:.3f}%",
            title=f"{look.title} {format_percent(share)}: {look.means}",
        )
        for look, share, key in shown
    ]
    label = ", ".join(f"{look.title} {format_percent(share)}" for look, share, _ in shown)
    style = f"width:{length:.1%}" if length < 1.0 else None
    return tag("div", bar, class_=kind, style=style, role="img", aria_label=label)


def render_legend(shares: Mapping[Bucket, float]) -> Markup:
    """Render the meaning of each share."""
    rows = [
        tag(
            "li",
            tag("i", class_=f"dot {key}"),
            tag("b", format_percent(shares[key])),
            tag("span", look.title, tag("small", look.means)),
        )
        for key, look in LOOKS.items()
        if shares[key] > 0
    ]
    return tag("ul", rows, class_="legend")


def render_keys(buckets: Iterable[Bucket]) -> Markup:
    """Render the colours of buckets below a picture."""
    keys = [tag("span", tag("i", class_=f"dot {key}"), LOOKS[key].title) for key in buckets]
    return tag("p", keys, class_="keys")


def _card(part: Card) -> Markup:
    look = LOOKS[part.accent]
    return tag(
        "article",
        tag(
            "p",
            tag("span", part.badge, class_=f"badge {part.badge}"),
            tag("span", tag("i", class_=f"dot {part.accent}"), look.title, class_="bucket")
            if part.meta
            else None,
            [tag("span", inline(line)) for line in part.meta],
            class_="meta",
        ),
        tag("h3", f"{part.number}. " if part.number else None, *_keep_code_together(part.title)),
        render_parts(part.parts),
        class_=f"card {part.badge}",
        style=f"--accent:{look.colour}",
    )
