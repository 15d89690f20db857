"""A page of terminal text with hanging indents, coloured or plain ASCII. Escape sequences and
control characters of recordings are removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

Colours = Literal["truecolor", "256", "standard"]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")
_ASCII: Final = str.maketrans(
    {"×": "x", "µ": "u", "–": "-", "—": "-", "…": "...", "·": "|", "→": "->", "≥": ">=", "≤": "<="}
    | {"█": "#", "±": "+-", "“": '"', "”": '"', "’": "'"}
)
MARGIN: Final = 1
"""free columns on the right"""
LONGEST: Final = 400
"""characters of a text from a recording; C++ kernel names have thousands"""
PROSE, SUMMARY = 10_000, 192
"""characters of a text of whyidle itself, and of a fix on the first screen: three rows"""


def clean_text(text: str, limit: int = LONGEST) -> str:
    """One line of printable text: an escape sequence in a kernel name must not reach the
    terminal."""
    line = _CONTROL.sub(" ", text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _split_words(body: Text, room: int) -> Iterator[Text]:
    for word in body.split(" "):
        # columns up to which a word is never broken
        fits = word.cell_len <= max(room, 120)
        yield from (word,) if fits else word.divide(range(room, len(word), room))


def _wrap_rows(body: Text, room: int) -> list[Text]:
    """Rows of at most ``room`` columns; a longer path or call stays in one piece, so that it can be
    clicked and pasted."""
    rows: list[Text] = []
    for word in _split_words(body, room):
        joined = Text(" ").join([rows[-1], word]) if rows else word
        if rows and joined.cell_len <= room:
            rows[-1] = joined
        else:
            rows.append(word)
    return rows


def whole_clauses(text: str, most: int) -> str:
    """The clauses of a text that fit into ``most`` characters. A longer one, without which hardly
    any of the text is left, stays whole."""
    stops, end = ("; ", ". "), len(text)
    if end > most and not (end := _last_clause(text[:most], stops)):
        later = (at for at in range(most, len(text)) if text.startswith(stops, at))
        end = next((at for at in later if _is_closed(text, at)), len(text))
    return text[:end]


def _is_closed(text: str, end: int) -> bool:
    return text.count("(", 0, end) == text.count(")", 0, end)


def _last_clause(
    text: str, stops: Sequence[str] = ("; ", ". ", ": ", " | ", " · ", " (", ", ")
) -> int:
    """Where the last whole clause of a text that is cut off ends; 0 if hardly any of it is left."""
    for stop in stops:
        end = text.rfind(stop)
        while end >= len(text) * 0.4:  # else less room is filled than a cut in a clause fills
            if _is_closed(text, end):
                return end
            end = text.rfind(stop, 0, end)
    return 0


class Page:
    """Collects lines of at most ``width`` columns; without ``colours`` they are plain ASCII."""

    def __init__(self, width: int, colours: Colours | None) -> None:
        self.width = width
        self.plain = colours is None
        self._out = StringIO()
        self._console = Console(
            file=self._out,
            width=width,
            color_system=colours,
            force_terminal=not self.plain,
            highlight=False,
            emoji=False,
            markup=False,
            legacy_windows=False,
        )

    def styled_text(self, value: str, style: str = "", limit: int = LONGEST) -> Text:
        """Cleaned text of at most ``limit`` characters, styled if the page has colours."""
        line = clean_text(value, limit)
        return Text(
            line.translate(_ASCII) if self.plain else line, style="" if self.plain else style
        )

    def write_paragraph(
        self,
        *parts: Text | str,
        style: str = "",
        label: str = "",
        head: Text | None = None,
        indent: int = 0,
        rows: int | None = None,
    ) -> None:
        """Write parts as one paragraph after ``head`` or a dim ``label``, with a hanging indent.
        Strings get the style. Text beyond ``rows`` rows is cut off."""
        first = Text(" " * indent) + (head or self.styled_text(label, "dim"))
        room = max(self.width - first.cell_len - MARGIN, 16)
        rest = Text(" " * first.cell_len)
        texts = [self.styled_text(p, style) if isinstance(p, str) else p for p in parts]
        body = Text().join(texts)
        wrapped = _wrap_rows(body, room) or [Text()]
        if rows is not None and (len(wrapped) > rows or wrapped[0].cell_len > room):
            wrapped = [*wrapped[: rows - 1], Text(" ").join(wrapped[rows - 1 :])]
            mark = Text("..." if self.plain else "…")
            if wrapped[-1].cell_len > room:
                wrapped[-1].truncate(room - mark.cell_len)
                wrapped[-1].rstrip()
                if end := _last_clause(" ".join(row.plain for row in wrapped)):
                    wrapped = _wrap_rows(body[:end], room)
                else:
                    wrapped[-1].append_text(mark)
        for number, row in enumerate(wrapped):
            row.rstrip()
            self._console.print((rest if number else first) + row, soft_wrap=True, end="\n")

    def write_row(self, row: Text) -> None:
        """Write one row unwrapped."""
        self._console.print(row, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        """Write a table; only its last column is wrapped."""
        table = Table(box=None, pad_edge=False, header_style="" if self.plain else "dim")
        for number, heading in enumerate(columns, 1):
            table.add_column(heading, overflow="fold", no_wrap=number < len(columns))
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def write_blank_line(self) -> None:
        """Write an empty line."""
        self._out.write("\n")

    def separate(self) -> None:
        """Write an empty line unless the last line is empty."""
        if not self._out.getvalue().endswith("\n\n"):
            self.write_blank_line()

    def page_text(self) -> str:
        """The page as text without trailing blanks."""
        lines = self._out.getvalue().split("\n")
        return "\n".join(line.rstrip() for line in lines)
