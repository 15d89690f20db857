"""The tree of sections that every document is made of; terminal, Markdown and HTML each render it.

A document is a sequence of parts. A part says what is shown, never how: the three back-ends are
``_text_sections``, ``_markdown_sections`` and ``_html.sections``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, Union

from whyidle.model.buckets import Bucket
from whyidle.reports._html.element import Markup

Tone = Literal["", "dim", "strong", "good", "bad", "caution", "code"]


class Span(NamedTuple):
    """Text with a tone."""

    text: str
    tone: Tone = ""


Line: TypeAlias = Union[str, Span, "list[Span | str]"]
"""text of one paragraph or cell"""


@dataclass(frozen=True, slots=True)
class Headline:
    """The first sentence of a document with its state (``badge``), and an explanation."""

    text: str
    badge: str = ""
    tone: str = ""  # a state of the verdict, or a ``Tone``
    second: str = ""
    accent: Bucket | None = None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph after an optional label. ``rows``: the most rows on a terminal."""

    content: Line
    label: str = ""
    tone: Tone = ""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Labelled lines; an empty label continues the one before. ``most_rows``: as of a paragraph."""

    rows: Sequence[tuple[str, Line]]
    most_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Key numbers as (title, value, remark)."""

    rows: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    lines: Sequence[Line]


class Column(NamedTuple):
    """A column of a table. ``rank``: the higher, the earlier it is left out on a narrow page."""

    title: str
    number: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table. On a terminal the last column is wrapped, to one row if ``cut``."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Line]]
    id: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """The shares of a step."""

    shares: Mapping[Bucket, float]


class BarRow(NamedTuple):
    """One of several bars: its name, its shares and its length (0-1)."""

    name: Line
    shares: Mapping[Bucket, float]
    length: float = 1.0


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars below each other, with one legend."""

    rows: Sequence[BarRow]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture for the page, drawn on demand; the other forms show ``text`` instead."""

    draw: Callable[[], Markup | None]
    text: Sequence[Part] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of code or of a patch."""

    text: str


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands to continue with, each with its purpose; ``brief``: without a heading."""

    steps: Sequence[tuple[str, str]]
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that the page and Markdown fold below a summary."""

    summary: str
    parts: Sequence[Part]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """A finding: badge and title, remarks beside them, and parts."""

    title: str
    badge: str
    meta: Sequence[Line]
    accent: Bucket
    parts: Sequence[Part]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A titled group of parts; ``id`` names it on the page."""

    title: str
    parts: Sequence[Part | None]
    id: str | None = None


Part: TypeAlias = (
    Headline | Paragraph | Facts | Figures | Items | Table | Bar | Bars | Picture | Code | Commands
    | Folded | Card | Section
)  # fmt: skip


def spans_of(line: Line) -> list[Span]:
    """The spans of a line."""
    parts = line if isinstance(line, list) else [line]
    return [part if isinstance(part, Span) else Span(part) for part in parts]


def text_of(line: Line) -> str:
    """The text of a line without tones."""
    return "".join(span.text for span in spans_of(line))
