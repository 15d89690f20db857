"""The confusion matrix as a picture: what was planted by row, what was named first by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from clinic.judge import NONE, Mark

CELL, LEFT, TOP, EDGE = 17, 232, 214, 12
RIGHT_COLOUR, WRONG_COLOUR, TEXT, GRID = "#1b7f5c", "#c0392b", "#24292f", "#d9dee3"
OTHERS = ("decoy", "healthy", "unknown")


def matrix(marks: Sequence[Mark]) -> str:
    """An SVG. Rows and columns are causes that were planted or named; the last rows are jobs in
    which nothing is to be found, the last column is silence."""
    counts = Counter((mark.truth, mark.said) for mark in marks if mark.kind != "void")
    causes = sorted({name for pair in counts for name in pair} - {*OTHERS, NONE})
    rows = [name for name in causes if any(truth == name for truth, _ in counts)]
    rows += [name for name in OTHERS if any(truth == name for truth, _ in counts)]
    columns = [name for name in causes if any(said == name for _, said in counts)] + [NONE]
    width = LEFT + CELL * len(columns) + 120
    height = TOP + CELL * len(rows) + 2 * EDGE
    drawn = [_head(width, height), *_grid(rows, columns)]
    for (truth, said), count in sorted(counts.items()):
        drawn.append(_cell(rows.index(truth), columns.index(said), count, _right(truth, said)))
    return "\n".join([*drawn, "</svg>", ""])


def _right(truth: str, said: str) -> bool:
    return truth == said or (truth in OTHERS and said == NONE)


def _head(width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="11">\n'
        "<title>What was planted, and what was named first</title>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    )


def _grid(rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    drawn = []
    for number, name in enumerate(rows):
        y = TOP + CELL * number
        drawn.append(_line(EDGE, y, LEFT + CELL * len(columns), y))
        drawn.append(
            f'<text x="{LEFT - 8}" y="{y + CELL - 5}" text-anchor="end" fill="{TEXT}">'
            f"{escape(name)}</text>"
        )
    for number, name in enumerate(columns):
        x = LEFT + CELL * number
        drawn.append(_line(x, TOP - 6, x, TOP + CELL * len(rows)))
        label = "(nothing)" if name == NONE else name
        drawn.append(
            f'<text transform="translate({x + CELL - 5} {TOP - 8}) rotate(-55)" fill="{TEXT}">'
            f"{escape(label)}</text>"
        )
    return drawn


def _line(x: int, y: int, to_x: int, to_y: int) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{GRID}"/>'


def _cell(row: int, column: int, count: int, right: bool) -> str:
    x, y = LEFT + CELL * column, TOP + CELL * row
    colour = RIGHT_COLOUR if right else WRONG_COLOUR
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="3" '
        f'fill="{colour}"/><text x="{x + CELL / 2}" y="{y + CELL - 5}" text-anchor="middle" '
        f'fill="#ffffff">{count}</text>'
    )
