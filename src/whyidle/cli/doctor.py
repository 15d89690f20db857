"""Say what can be measured on this machine, what cannot, and how to close each gap."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import STDOUT, quiet, store
from whyidle.cli._store import store_of

if TYPE_CHECKING:
    from whyidle.exporters._page import Page
    from whyidle.model.machine import Check, Machine

_MARKS = {"ok": ("ok", "green"), "gap": ("GAP", "bold yellow"), "note": ("note", "cyan")} | {
    "absent": ("-", "dim")
}


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", metavar="PATH|-", help="all checks")
    quiet(parser)
    store(parser)


def run(args: argparse.Namespace) -> int:
    """Look, and say."""
    from whyidle.engine.doctor import examine

    _output.check(args)
    machine = examine(environ=os.environ, folder=Path.cwd(), store=store_of(args).root)
    if args.json:
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(machine), indent=1).decode()
        _output.put(args.json, text + "\n")
    if args.json != STDOUT and not args.quiet:
        _output.show(_text(machine))
    return 0


def _text(machine: Machine) -> str:
    from whyidle.exporters._next import next_commands
    from whyidle.exporters._page import Page

    page = Page(_output.width(), _output.colours())
    for topic in dict.fromkeys(check.topic for check in machine.checks):
        page.gap()
        page.line(page.text(topic, "bold"))
        for check in machine.checks:
            if check.topic == topic:
                _row(page, check)
    gaps = sum(check.state == "gap" for check in machine.checks)
    page.gap()
    page.line(page.text(f"{gaps} gap{'s' if gaps != 1 else ''}" if gaps else "no gaps", "bold"))
    next_commands(
        page, [("whyidle explain TRACE", "diagnose a recording; needs none of the above")]
    )
    return page.done()


def _row(page: Page, check: Check) -> None:
    from rich.text import Text

    word, style = _MARKS[check.state]
    head = Text().append_text(page.text(f"{word:<5}", style))
    head.append_text(page.text(f"{check.name}: "))
    page.line(page.text(check.found), head=head, indent=2)
    if check.means:
        page.line(page.text(check.means, "dim"), indent=7)
    if check.close:
        page.line(page.text(check.close), head=page.text("close it: ", "green"), indent=7)
