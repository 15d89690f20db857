"""What the pages about causes say, from their declarations."""

from __future__ import annotations

import inspect
import re
from typing import Final, NamedTuple

from whyidle import catalog
from whyidle.model.cause import Cause
from whyidle.model.fix import Fix
from whyidle.model.signals import SIGNALS

_HEADING = re.compile(r"^(\S.*)\n-{3,}$", re.MULTILINE)
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")
_CODE = "    "
HEADING: Final = "How gains are predicted"
PREDICTORS: Final = {
    "P1": "loading at the rate that the measured batches, workers and cores allow, concurrently "
    "with the step",
    "P2": "measured batch times, replayed through a queue of another depth",
    "P3": "recorded steps, replayed without a wait for the device",
    "P4": "a step as long as its launches or its device work, whichever is longer",
    "P5": "recorded steps, replayed with faster kernels or without them",
    "P6": "step time as a fixed part plus a part that grows with the batch",
    "P7": "communication minus what the rest of the step can hide",
    "P8": "every rank with the work, or the speed, of the others",
    "P9": "speed-up = 1 / (1 - f (1 - r)), where f is the share of time in pauses and r the part "
    "of them that remains",
    "P10": "the one-off cost of a fix against its saving in the remaining steps",
    "P11": "the compute share of the step at the rated clock instead of the measured clock",
}
_PREDICTOR = re.compile(r"\bP(?:1[01]|[1-9])\b")


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


def predictor_legend(text: str) -> list[str]:
    """One line for each predictor code in a text."""
    codes = set(_PREDICTOR.findall(text))
    return [f"- {code}: {meaning}" for code, meaning in PREDICTORS.items() if code in codes]
