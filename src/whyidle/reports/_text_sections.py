"""Writes sections as terminal text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Final

from rich.text import Text

from whyidle.reports._next_steps import next_commands
from whyidle.reports._number_format import NONE, format_percent
from whyidle.reports._palette import BADGES, LOOKS
from whyidle.reports._sections import (
    Bar,
    Bars,
    Card,
    Code,
    Column,
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
    Span,
    Table,
    spans_of,
    text_of,
)
from whyidle.reports._text_bar import SEEN, draw_legend, draw_row, draw_text_bar
from whyidle.reports._text_page import MARGIN, PROSE, Colours, Page

STYLES: Final[dict[str, str]] = {
    "": "",
    "dim": "dim",
    "strong": "bold",
    "good": "green",
    "bad": "bold red",
    "caution": "yellow",
    "code": "cyan",
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "dim",
    **{str(state): style for state, style in BADGES.items()},
}
_LAST: Final = 16
"""columns that the last column of a table has at least"""


def render_text(
    parts: Iterable[Part | None], *, width: int = 80, colours: Colours | None = None
) -> str:
    """Render parts as text of at most ``width`` columns; without ``colours`` as plain ASCII."""
    page = Page(width, colours)
    page.write_blank_line()
    write_parts(page, parts)
    return page.page_text()


def write_parts(page: Page, parts: Iterable[Part | None], indent: int = 2) -> None:
    """Write parts below each other."""
    for part in parts:
        if part is not None:
            _write(part, page, indent)


@singledispatch
def _write(part: Part, page: Page, indent: int) -> None:  # noqa: ARG001
    raise TypeError(f"{type(part).__name__} is not a part of a document")


@_write.register
def _(part: Headline, page: Page, indent: int) -> None:
    word = part.badge.upper()
    filled = part.tone in BADGES and not page.plain
    head = page.styled_text(f" {word} " if filled else f"{word}:", STYLES[part.tone])
    if not word:
        page.write_paragraph(part.text, style="bold", indent=indent)
    elif page.width >= 70:  # columns that headline and badge need beside each other
        head.append(" ")
        page.write_paragraph(part.text, style="bold", head=head, indent=indent)
    else:
        page.write_paragraph(head, indent=indent)
        page.write_paragraph(part.text, style="bold", indent=indent)
    if part.second:
        page.write_paragraph(part.second, indent=indent)


@_write.register
def _(part: Paragraph, page: Page, indent: int) -> None:
    head = page.styled_text(f"{part.label} " if part.label else "", "dim")
    text = styled_line(page, part.content, part.tone)
    page.write_paragraph(text, head=head, indent=indent, rows=part.rows)


@_write.register
def _(part: Facts, page: Page, indent: int) -> None:
    for label, line in part.rows:
        head = page.styled_text(f"{label:<8} ", "dim")
        page.write_paragraph(styled_line(page, line), head=head, indent=indent, rows=part.most_rows)


@_write.register
def _(part: Figures, page: Page, indent: int) -> None:
    texts = [" ".join(filter(None, row)) for row in part.rows]
    page.write_paragraph(" · ".join(texts), indent=indent)


@_write.register
def _(part: Items, page: Page, indent: int) -> None:
    for line in part.lines:
        head = page.styled_text("- ", "dim")
        page.write_paragraph(styled_line(page, line), head=head, indent=indent)


@_write.register
def _(part: Bar, page: Page, indent: int) -> None:
    draw_text_bar(page, part.shares, indent)


@_write.register
def _(part: Picture, page: Page, indent: int) -> None:
    write_parts(page, part.text, indent)


@_write.register
def _(part: Code, page: Page, indent: int) -> None:
    for row in part.text.splitlines():
        page.write_row(page.styled_text(" " * indent + row))


@_write.register
def _(part: Commands, page: Page, indent: int) -> None:  # noqa: ARG001
    next_commands(page, part.steps, brief=part.brief)


@_write.register
def _(part: Folded, page: Page, indent: int) -> None:
    page.write_paragraph(part.summary, style="dim", indent=indent)
    write_parts(page, part.parts, indent + 2)


@_write.register
def _(part: Section, page: Page, indent: int) -> None:
    page.write_blank_line()
    if part.title:
        page.write_paragraph(part.title, style="bold", indent=indent)
    write_parts(page, part.parts, indent)


@_write.register
def _(part: Card, page: Page, indent: int) -> None:
    page.separate()
    number = f"{part.number}. " if part.number else ""
    mark = page.styled_text(f"{number}{part.badge.upper()} ", STYLES.get(part.badge, ""))
    page.write_paragraph(part.title, style="bold", head=mark, indent=indent)
    if part.meta:
        meta = " · ".join(text_of(line) for line in part.meta)
        page.write_paragraph(meta, style="dim", indent=indent + 3)
    write_parts(page, part.parts, indent + 3)


@_write.register
def _(part: Bars, page: Page, indent: int) -> None:
    heads = [styled_line(page, row.name) for row in part.rows]
    longest = min(max((head.cell_len for head in heads), default=0), page.width // 2)
    for head, row in zip(heads, part.rows, strict=True):
        head.truncate(longest, pad=True)
        start = Text(" " * indent) + head + Text("  ")
        room = page.width - start.cell_len - 1
        if row.length <= 0:
            page.write_row(start)
            continue
        draw_row(page, row.shares, start, margin=1 + room - max(1, round(room * row.length)))
    seen = [b for b in LOOKS if any(row.shares[b] >= SEEN for row in part.rows)]
    alone = part.rows[0].shares if len(part.rows) == 1 else None
    draw_legend(page, {b: format_percent(alone[b]) if alone else "" for b in seen}, indent)


@_write.register
def _(part: Table, page: Page, indent: int) -> None:
    """Where it is too wide, columns of the highest rank are left out."""
    visible, widths = _fitting_columns(page, part, indent)
    columns = [part.columns[number] for number in visible]
    rows = [[row[number] for number in visible] for row in part.rows]
    if any(column.title for column in columns):
        rows.insert(0, [Span(column.title, "dim") for column in columns])
    for cells in rows:
        texts = [
            _pad(styled_line(page, cell), width, column)
            for cell, width, column in zip(cells, widths, columns, strict=True)
        ]
        head = Text("  ").join([*texts[:-1], Text("")])
        head.truncate(max(page.width - indent - MARGIN - _LAST, 8))
        texts[-1].rstrip()
        most = 1 if part.cut else None
        page.write_paragraph(texts[-1], head=head, indent=indent, rows=most)


def _pad(text: Text, width: int, column: Column) -> Text:
    blank = Text(" " * max(0, width - text.cell_len))
    return blank + text if column.number else text + blank


def styled_line(page: Page, line: Line, tone: str = "") -> Text:
    """A line as cleaned text, with the styles of its spans or else that of ``tone``."""
    spans = spans_of(line)
    return Text().join(
        [page.styled_text(s.text, STYLES[s.tone or tone], PROSE if len(spans) == 1 else 400)
         for s in spans]
    )  # fmt: skip


def _fitting_columns(page: Page, table: Table, indent: int) -> tuple[list[int], list[int]]:
    texts = [[column.title, *(text_of(row[n]) for row in table.rows)]
             for n, column in enumerate(table.columns)]  # fmt: skip
    used = [n for n, column in enumerate(texts) if any(t not in ("", NONE) for t in column[1:])]
    room = page.width - indent - MARGIN
    while True:
        widths = [max(page.styled_text(t, limit=PROSE).cell_len for t in texts[n]) for n in used]
        last = [min(width, _LAST if table.cut else 2 * _LAST) for width in widths[-1:]]
        if sum(widths[:-1] + last) + 2 * (len(widths) - 1) <= room or len(used) < 2:
            return used, widths
        worst = max(used, key=lambda n: table.columns[n].rank)
        if not table.columns[worst].rank:
            return used, widths
        used.remove(worst)
