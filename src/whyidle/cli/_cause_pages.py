"""What the pages about causes say, from their declarations."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

from whyidle import catalog
from whyidle.model.cause import Cause
from whyidle.model.fix import Fix
from whyidle.model.signals import SIGNALS

_HEADING = re.compile(r"^(\S.*)\n-{3,}$", re.MULTILINE)
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")
_CODE = "    "


class Section(NamedTuple):
    """A heading and its paragraphs, each on one line."""

    title: str
    paragraphs: list[str]


def parse_sections(doc: str) -> list[Section]:
    """A docstring's sections, in their order."""
    parts = _HEADING.split(inspect.cleandoc(doc))
    titles, bodies = parts[1::2], parts[2::2]
    return [Section(t, join_paragraphs(body)) for t, body in zip(titles, bodies, strict=True)]


def join_paragraphs(text: str) -> list[str]:
    """Join each paragraph and list item to one line; lines of code stay unchanged."""
    paragraphs: list[str] = []
    starts_new = True
    for line in inspect.cleandoc(text).splitlines():
        stripped = line.strip()
        if line.startswith(_CODE):
            paragraphs.append(line)
        elif stripped and (starts_new or _ITEM.match(stripped)):
            paragraphs.append(stripped)
        elif stripped:
            paragraphs[-1] += f" {stripped}"
        starts_new = not stripped
    return paragraphs


def fixes_of_cause(cause: Cause) -> list[Fix]:
    """The fixes for a cause."""
    return [fix for fix in catalog.load_fixes().values() if cause.id in fix.causes]


def describe_needs(cause: Cause) -> list[str]:
    """The signals that a cause needs, and how to record them."""
    return [f"{SIGNALS[need].meaning}: {SIGNALS[need].how}" for need in cause.needs]


def by_family() -> dict[str, list[Cause]]:
    """Every cause, families and ids in alphabetical order."""
    families: dict[str, list[Cause]] = {}
    for cause in sorted(catalog.load_causes().values(), key=lambda c: (c.family, c.id)):
        families.setdefault(cause.family, []).append(cause)
    return families
