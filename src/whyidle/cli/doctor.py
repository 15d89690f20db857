"""Check what whyidle can measure on this machine, and how to close each gap."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import add_outputs, add_store, store_of

if TYPE_CHECKING:
    from whyidle.machine.doctor import Check, Machine
    from whyidle.reports._text_page import Page

_MARKS = {"ok": ("ok", "green"), "gap": ("GAP", "bold yellow"), "note": ("note", "cyan")} | {
    "absent": ("-", "dim")
}


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_outputs(parser, ("--json",), "")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Run the checks and print them."""
    from whyidle.machine.doctor import examine_machine

    _output.check_outputs(args)
    machine = examine_machine(environ=os.environ, store=store_of(args).root)
    if _output.write_documents(args, json=lambda: machine):
        _output.print_text(_doctor_text(machine))
    return 0


def _doctor_text(machine: Machine) -> str:
    from whyidle.reports._next_steps import next_commands
    from whyidle.reports._text_page import Page

    page = Page(_output.output_width(), _output.stream_colours())
    for topic in dict.fromkeys(check.topic for check in machine.checks):
        page.write_blank_line()
        page.write_paragraph(topic, style="bold")
        for check in machine.checks:
            if check.topic == topic:
                _check_row(page, check)
    gaps = sum(check.state == "gap" for check in machine.checks)
    page.write_blank_line()
    page.write_paragraph(
        f"{gaps} gap{'s' if gaps != 1 else ''}" if gaps else "no gaps", style="bold"
    )
    next_commands(
        page, [("whyidle explain TRACE", "diagnose a recording; none of the above is needed")]
    )
    return page.page_text()


def _check_row(page: Page, check: Check) -> None:
    from rich.text import Text

    word, style = _MARKS[check.state]
    head = Text().append_text(page.styled_text(f"{word:<5}", style))
    head.append_text(page.styled_text(f"{check.name}: "))
    page.write_paragraph(check.found, head=head, indent=2)
    if check.means:
        page.write_paragraph(check.means, style="dim", indent=7)
    if check.close:
        page.write_paragraph(check.close, head=page.styled_text("fix: ", "green"), indent=7)
