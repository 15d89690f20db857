"""List the causes that whyidle knows, or explain one."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import add_outputs

if TYPE_CHECKING:
    from whyidle.model.cause import Cause
    from whyidle.reports._text_page import Page


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
    from whyidle.cli import _cause_pages

    return [
        {
            "id": cause.id,
            "title": cause.title,
            "family": cause.family,
            "bucket": cause.bucket,
            "needs": cause.needs,
            "min_steps": cause.min_steps,
            "fixes": [fix.id for fix in _cause_pages.fixes_of_cause(cause)],
        }
        for cause in causes
    ]


def _print_table(page: Page) -> None:
    from whyidle.cli import _cause_pages
    from whyidle.reports._next_steps import next_commands

    families = _cause_pages.by_family()
    longest = max(len(cause.id) for causes in families.values() for cause in causes)
    for family, causes in families.items():
        page.write_blank_line()
        page.write_paragraph(family, style="bold")
        for cause in causes:
            head = page.styled_text(f"{cause.id:<{longest}}  ", "cyan")
            page.write_paragraph(cause.title, head=head, indent=2)
    next_commands(page, [("whyidle causes ID", "meaning, detection and remedies of one cause")])


def _print_page(page: Page, cause: Cause) -> None:
    from whyidle.cli import _cause_pages
    from whyidle.model.fix import CONSENTS
    from whyidle.reports._next_steps import next_commands

    page.write_blank_line()
    page.write_paragraph(cause.title, style="bold")
    page.write_paragraph(f"{cause.id} · {cause.family}", style="dim")
    for section in _cause_pages.parse_sections(cause.doc):
        _print_section(page, section.title, section.paragraphs)
    _print_section(
        page, "Evidence needed", [f"- {need}" for need in _cause_pages.describe_needs(cause)]
    )
    fixes = [
        f"- {fix.id} ({CONSENTS[fix.consent]}): {' '.join(_cause_pages.join_paragraphs(fix.doc))}"
        for fix in _cause_pages.fixes_of_cause(cause)
    ]
    _print_section(page, "Fixes", fixes or ["- none"])
    if legend := _cause_pages.predictor_legend(" ".join([cause.doc, *fixes])):
        _print_section(page, _cause_pages.HEADING, legend)
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
