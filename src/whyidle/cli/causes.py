"""List the causes that whyidle knows, or explain one."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import STDOUT, quiet

if TYPE_CHECKING:
    from whyidle.exporters._page import Page
    from whyidle.model.cause import Cause


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", nargs="?", metavar="ID", help="a cause, as in a report")
    parser.add_argument("--json", metavar="PATH|-", help="the declarations")
    quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Show the table, or a page."""
    from whyidle import catalog
    from whyidle.exporters._page import Page

    _output.check(args)
    known = catalog.causes()
    chosen = [_find(known, args.id)] if args.id else list(known.values())
    if args.json:
        _output.put(args.json, _json(chosen))
    if args.json != STDOUT and not args.quiet:
        page = Page(_output.width(), _output.colours())
        if args.id:
            _page(page, chosen[0])
        else:
            _table(page)
        _output.show(page.done())
    return 0


def _find(known: dict[str, Cause], name: str) -> Cause:
    from whyidle.errors import UsageError

    name = name.lower().replace("_", "-")
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    close = close or [cause for cause in known if name in cause][:1]
    raise UsageError(
        f"There is no cause {name!r}.", hint=f"whyidle causes {close[0] if close else ''}".rstrip()
    )


def _json(causes: list[Cause]) -> str:
    import msgspec

    from whyidle.cli import _pages

    rows = [
        {
            "id": cause.id,
            "title": cause.title,
            "family": cause.family,
            "bucket": cause.bucket,
            "needs": cause.needs,
            "min_steps": cause.min_steps,
            "fixes": [fix.id for fix in _pages.fixes(cause)],
        }
        for cause in causes
    ]
    return msgspec.json.format(msgspec.json.encode(rows), indent=1).decode() + "\n"


def _table(page: Page) -> None:
    from whyidle.cli import _pages
    from whyidle.exporters._next import next_commands

    families = _pages.by_family()
    longest = max(len(cause.id) for causes in families.values() for cause in causes)
    for family, causes in families.items():
        page.gap()
        page.line(page.text(family, "bold"))
        for cause in causes:
            head = page.text(f"{cause.id:<{longest}}  ", "cyan")
            page.line(page.text(cause.title), head=head, indent=2)
    next_commands(page, [("whyidle causes ID", "what it means, how it is detected, what to do")])


def _page(page: Page, cause: Cause) -> None:
    from whyidle.cli import _pages, _predictors
    from whyidle.exporters._next import next_commands

    page.gap()
    page.line(page.text(cause.title, "bold"))
    page.line(page.text(f"{cause.id} · family {cause.family} · bucket {cause.bucket}", "dim"))
    for section in _pages.sections(cause.doc):
        _section(page, section.title, section.paragraphs)
    _section(page, "Evidence needed", [f"- {need}" for need in _pages.needs(cause)])
    fixes = [
        f"- {fix.id} ({_pages.CONSENTS[fix.consent]}): {' '.join(_pages.paragraphs(fix.doc))}"
        for fix in _pages.fixes(cause)
    ]
    _section(page, "Fixes", fixes or ["- none yet"])
    if told := _predictors.legend(" ".join([cause.doc, *fixes])):
        _section(page, _predictors.HEADING, told)
    next_commands(page, [("whyidle causes", "all of them")])


def _section(page: Page, title: str, paragraphs: list[str]) -> None:
    from whyidle.exporters._page import PROSE

    page.gap()
    page.line(page.text(title, "bold"))
    for number, paragraph in enumerate(paragraphs):
        item = paragraph.startswith(("- ", "* "))
        if number and not item and not paragraph.startswith("    "):
            page.gap()
        told = (paragraph[2:] if item else paragraph).replace("``", "`")
        text = page.text(told, most=PROSE)
        page.line(text, head=page.text("- ") if item else None, indent=2)
