"""Pages about causes, made from their declarations, for the terminal and as Markdown."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

from whyidle import catalog
from whyidle.cli._predictor_legend import HEADING, predictor_legend
from whyidle.model.cause import Cause
from whyidle.model.fix import Fix
from whyidle.model.signals import SIGNALS

_HEADING = re.compile(r"^(\S.*)\n-{3,}$", re.MULTILINE)
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")
_CODE = "    "
_TIGHT = re.compile(rf"{_ITEM.pattern}|{_CODE}")
CONSENTS = {
    "none": "same numbers",
    "rounding": "same mathematics; rounding or random order may differ",
    "numerics": "changes the precision of numbers",
    "convergence": "may change learning",
}


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


def cause_markdown(cause: Cause) -> str:
    """A cause's page in the documentation."""
    lines = [
        f"# {cause.title}",
        "",
        f"`{cause.id}` · family {cause.family} · bucket {cause.bucket}",
    ]
    for section in parse_sections(cause.doc):
        lines += ["", f"## {section.title}", "", *_markdown_block(section.paragraphs)]
    lines += ["", "## Evidence needed", "", *(f"- {need}" for need in describe_needs(cause))]
    steps = f"at least {cause.min_steps} step{'s' if cause.min_steps > 1 else ''}"
    lines += [f"- {steps}", "", "## Fixes", ""]
    for fix in fixes_of_cause(cause):
        text = " ".join(join_paragraphs(fix.doc))
        lines.append(f"- `{fix.id}` ({CONSENTS[fix.consent]}): {_format_code(text)}")
    lines += [] if fixes_of_cause(cause) else ["- none yet"]
    if legend := predictor_legend("\n".join(lines)):
        lines += ["", f"## {HEADING}", "", *legend]
    return "\n".join(lines) + "\n"


def catalogue_index() -> str:
    """The index page of the catalogue."""
    lines = [
        "# The causes that whyidle knows",
        "",
        "One page per root cause, generated from its source by `make docs`. `whyidle causes ID`",
        "shows the same page in a terminal.",
    ]
    for family, causes in by_family().items():
        lines += ["", f"## {family}", "", "| cause | what it is | bucket |", "|---|---|---|"]
        lines += [
            f"| [`{c.id}`]({c.id}.md) | {_format_code(c.title)} | {c.bucket} |" for c in causes
        ]
    return "\n".join(lines) + "\n"


def _markdown_block(texts: list[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        loose = lines and not (_TIGHT.match(text) and _TIGHT.match(lines[-1]))
        lines += ["", _format_code(text)] if loose else [_format_code(text)]
    return lines


def _format_code(text: str) -> str:
    return text.replace("``", "`")
