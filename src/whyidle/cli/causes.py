"""List the causes that whyidle knows, or explain one."""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from whyidle.cli import _output
from whyidle.cli._options import add_outputs

if TYPE_CHECKING:
    from whyidle.model.cause import Cause
    from whyidle.model.fix import Fix
    from whyidle.reports._text_page import Page

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


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", nargs="?", metavar="ID", help="the id of a cause, as in a report")
    add_outputs(parser, ("--json",), "")


def run(args: argparse.Namespace) -> int:
    """Show the table of causes, or the page of one."""
    from whyidle import catalog
    from whyidle.reports._text_page import Page

    _output.check_outputs(args)
    known = catalog.load_causes()
    causes = [_find_cause(known, args.id)] if args.id else list(known.values())
    if _output.write_documents(args, json=lambda: _cause_rows(causes)):
        page = Page(_output.output_width(), _output.stream_colours())
        if args.id:
            _print_page(page, causes[0])
        else:
            _print_table(page)
        _output.print_text(page.page_text())
    return 0


def _find_cause(known: dict[str, Cause], name: str) -> Cause:
    from whyidle.errors import UsageError

    name = name.lower().replace("_", "-")
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    close = close or [cause for cause in known if name in cause][:1]
    raise UsageError(
        f"Unknown cause {name!r}.", hint=f"whyidle causes {close[0] if close else ''}".rstrip()
    )


def _cause_rows(causes: list[Cause]) -> list[dict[str, object]]:
    return [
        {
            "id": cause.id,
            "title": cause.title,
            "family": cause.family,
            "bucket": cause.bucket,
            "needs": cause.needs,
            "min_steps": cause.min_steps,
            "fixes": [fix.id for fix in fixes_of_cause(cause)],
        }
        for cause in causes
    ]


def _print_table(page: Page) -> None:
    from whyidle.reports._next_steps import next_commands

    families = by_family()
    longest = max(len(cause.id) for causes in families.values() for cause in causes)
    for family, causes in families.items():
        page.write_blank_line()
        page.write_paragraph(family, style="bold")
        for cause in causes:
            head = page.styled_text(f"{cause.id:<{longest}}  ", "cyan")
            page.write_paragraph(cause.title, head=head, indent=2)
    next_commands(page, [("whyidle causes ID", "meaning, detection and remedies of one cause")])


def _print_page(page: Page, cause: Cause) -> None:
    from whyidle.model.fix import CONSENTS
    from whyidle.reports._next_steps import next_commands

    page.write_blank_line()
    page.write_paragraph(cause.title, style="bold")
    page.write_paragraph(f"{cause.id} · {cause.family}", style="dim")
    for section in parse_sections(cause.doc):
        _print_section(page, section.title, section.paragraphs)
    _print_section(page, "Evidence needed", [f"- {need}" for need in describe_needs(cause)])
    fixes = [
        f"- {fix.id} ({CONSENTS[fix.consent]}): {' '.join(join_paragraphs(fix.doc))}"
        for fix in fixes_of_cause(cause)
    ]
    _print_section(page, "Fixes", fixes or ["- none"])
    if legend := predictor_legend(" ".join([cause.doc, *fixes])):
        _print_section(page, HEADING, legend)
    next_commands(page, [("whyidle causes", "list all causes")])


def _print_section(page: Page, title: str, paragraphs: list[str]) -> None:
    from whyidle.reports._text_page import PROSE

    page.write_blank_line()
    page.write_paragraph(title, style="bold")
    for number, paragraph in enumerate(paragraphs):
        item = paragraph.startswith(("- ", "* "))
        if number and not item and not paragraph.startswith("    "):
            page.write_blank_line()
        content = (paragraph[2:] if item else paragraph).replace("``", "`")
        text = page.styled_text(content, limit=PROSE)
        page.write_paragraph(text, head=page.styled_text("- ") if item else None, indent=2)


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
    from whyidle import catalog

    return [fix for fix in catalog.load_fixes().values() if cause.id in fix.causes]


def describe_needs(cause: Cause) -> list[str]:
    """The signals that a cause needs, and how to record them."""
    from whyidle.model.signals import SIGNALS

    return [f"{SIGNALS[need].meaning}: {SIGNALS[need].how}" for need in cause.needs]


def by_family() -> dict[str, list[Cause]]:
    """Every cause, families and ids in alphabetical order."""
    from whyidle import catalog

    families: dict[str, list[Cause]] = {}
    for cause in sorted(catalog.load_causes().values(), key=lambda c: (c.family, c.id)):
        families.setdefault(cause.family, []).append(cause)
    return families


def predictor_legend(text: str) -> list[str]:
    """One line for each predictor code in a text."""
    codes = set(_PREDICTOR.findall(text))
    return [f"- {code}: {meaning}" for code, meaning in PREDICTORS.items() if code in codes]
