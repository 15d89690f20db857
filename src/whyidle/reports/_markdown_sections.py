"""Renders sections as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch

from whyidle.reports._number_format import NONE, format_percent
from whyidle.reports._palette import LOOKS
from whyidle.reports._sections import (
    Bar,
    BarRow,
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
from whyidle.reports._text_bar import SEEN

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")


def escape_text(value: str) -> str:
    """Text of a recording on one line, without markup, HTML and mentions."""
    escaped = _SPECIAL.sub(r"\\\1", _one_line(value))
    return escaped.replace("@", "@\u200b")


def code_span(value: str) -> str:
    """A code span that its content cannot close, also in a table cell."""
    text = _one_line(value).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _one_line(value: str) -> str:
    return _CONTROL.sub("\ufffd", " ".join(value.split()))


_BAR = 24
_BLOCKS = " ▏▎▍▌▋▊▉█"


def render_markdown(parts: Iterable[Part | None]) -> str:
    """Render parts as Markdown; text of recordings can neither become markup nor mention people."""
    return "\n".join(_lines(parts)).strip("\n") + "\n"


def _lines(parts: Iterable[Part | None]) -> Iterator[str]:
    for part in parts:
        if part is not None:
            yield from _part_lines(part)


@singledispatch
def _part_lines(part: Part) -> Iterator[str]:
    raise TypeError(f"{type(part).__name__} is not a part of a document")


@_part_lines.register
def _(part: Headline) -> Iterator[str]:
    state = f"**{escape_text(part.badge)}** · " if part.badge else ""
    yield from ("", f"### {state}{escape_text(part.text)}")
    yield from ("", escape_text(part.second)) if part.second else ()


@_part_lines.register
def _(part: Paragraph) -> Iterator[str]:
    label = f"**{escape_text(part.label.strip(' :'))}:** " if part.label else ""
    mark = "> " if part.tone == "caution" else ""
    yield from ("", f"{mark}{label}{_inline(part.content, part.tone)}")


@_part_lines.register
def _(part: Facts) -> Iterator[str]:
    yield ""
    for label, line in part.rows:
        head = f"**{escape_text(label)}** " if label else ""
        yield f"{'-' if label else '  -'} {head}{_inline(line)}"


@_part_lines.register
def _(part: Figures) -> Iterator[str]:
    texts = [" ".join(filter(None, (f"{t} **{v}**", n))) for t, v, n in part.rows]
    yield from ("", " · ".join(escape_text(text).replace(r"\*", "*") for text in texts))


@_part_lines.register
def _(part: Items) -> Iterator[str]:
    yield from ("", *(f"- {_inline(line)}" for line in part.lines))


@_part_lines.register
def _(part: Table) -> Iterator[str]:
    yield from _table_lines(part)


@_part_lines.register
def _(part: Bar) -> Iterator[str]:
    yield from _bar_lines([BarRow("", part.shares)])


@_part_lines.register
def _(part: Bars) -> Iterator[str]:
    yield from _bar_lines(part.rows)


@_part_lines.register
def _(part: Picture) -> Iterator[str]:
    yield from _lines(part.text)


@_part_lines.register
def _(part: Code) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(r) for r in part.text.split() if set(r) == {"`"}),
                                 default=0))  # fmt: skip
    yield from ("", f"{fence}diff", *part.text.splitlines(), fence)


@_part_lines.register
def _(part: Commands) -> Iterator[str]:
    yield ""
    yield from (f"- {code_span(step)}: {escape_text(why)}" for step, why in part.steps)


@_part_lines.register
def _(part: Folded) -> Iterator[str]:
    yield from ("", f"<details><summary>{escape_text(part.summary)}</summary>")
    yield from (*_lines(part.parts), "", "</details>")


@_part_lines.register
def _(part: Card) -> Iterator[str]:
    number = f"{part.number}. " if part.number else ""
    yield from ("", f"#### {number}{escape_text(part.title)}", "")
    yield " · ".join([f"**{part.badge}**", *(_inline(line) for line in part.meta)])
    yield from _lines(part.parts)


@_part_lines.register
def _(part: Section) -> Iterator[str]:
    yield from ("", f"#### {escape_text(part.title)}") if part.title else ()
    yield from _lines(part.parts)


def _inline(line: Line, tone: str = "") -> str:
    parts = []
    for span in spans_of(line):
        style = span.tone or tone
        if style == "code" and span.text:
            parts.append(code_span(span.text))
        elif style in ("strong", "bad", "good") and span.text.strip():
            body = span.text.strip()
            parts.append(span.text.replace(body, f"**{escape_text(body)}**"))
        else:
            inner = escape_text(span.text)
            before, after = span.text[:1] == " ", span.text[-1:] == " "
            parts.append(f"{' ' if before else ''}{inner}{' ' if after and inner else ''}")
    return "".join(parts)


def _table_lines(table: Table) -> Iterator[str]:
    used = [n for n in range(len(table.columns))
            if any(text_of(row[n]) not in ("", NONE) for row in table.rows)]  # fmt: skip
    heads = [escape_text(table.columns[n].title) for n in used]
    yield from ("", f"| {' | '.join(heads)} |")
    yield f"|{'|'.join('--:' if table.columns[n].number else '---' for n in used)}|"
    for row in table.rows:
        yield f"| {' | '.join(_inline(row[n]) for n in used)} |"


def _bar_lines(rows: Sequence[BarRow]) -> Iterator[str]:
    """One row of shares a bar; a single bar is drawn."""
    shown = [b for b in LOOKS if any(row.shares[b] >= SEEN for row in rows)]
    if len(rows) == 1:
        yield from ("", "| where the step goes | share | |", "|---|--:|:--|")
        for bucket in LOOKS:
            share, look = rows[0].shares[bucket], LOOKS[bucket]
            if share > 0:
                bar = f"`{_draw_bar(share)}`"
                yield f"| **{look.title}**: {look.means} | {format_percent(share)} | {bar} |"
        return
    yield from ("", f"| where the step goes | {' | '.join(LOOKS[b].title for b in shown)} |")
    yield f"|---|{'--:|' * len(shown)}"
    for row in rows:
        cells = " | ".join(format_percent(row.shares[b]) for b in shown)
        yield f"| {_inline(row.name)} | {cells} |"


def _draw_bar(share: float) -> str:
    eighths = max(1, round(share * _BAR * 8))
    full, part = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[part] if part else "")).ljust(_BAR)
