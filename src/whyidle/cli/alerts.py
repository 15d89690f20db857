"""List alert rules, test where alerts go, or write a rule file for Prometheus.

    whyidle watch --alerts alerts.toml       evaluate and deliver alerts while watching
    whyidle alerts                           list the shipped rules
    whyidle alerts alerts.toml               check a file, and list its rules
    whyidle alerts --rules rules.yml         write the same rules for Prometheus
    whyidle alerts alerts.toml --test        send a test notice over every route

Rules and routes stand in one TOML file; without FILE the shipped rules apply.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import STDOUT, add_outputs
from whyidle.errors import OutputError

if TYPE_CHECKING:
    from whyidle.machine.alerts.rule_file import AlertSettings
    from whyidle.model.live.alert import Rule


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", type=Path, help="file of rules and routes"
    )
    parser.add_argument(
        "--rules",
        nargs="?",
        const=STDOUT,
        metavar="PATH|-",
        help="write the rules as a rule file for Prometheus",
    )
    parser.add_argument("--test", action="store_true", help="send a test notice over every route")
    add_outputs(parser, ("--json",), "")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    from whyidle.machine.alerts.prometheus_rules import write_rules
    from whyidle.machine.alerts.rule_file import AlertSettings, read_settings
    from whyidle.machine.watch.alert_routes import check_routes

    settings = read_settings(args.file) if args.file else AlertSettings()
    if args.test:
        return _test_routes(args, settings)
    check_routes(settings.route)
    rules = settings.active_rules()
    if _output.write_documents(
        args, json=lambda: rules, rules=lambda: write_rules(rules, settings.interval_s)
    ):
        _output.print_text(_rules_table(rules))
    return 0


def _test_routes(args: argparse.Namespace, settings: AlertSettings) -> int:
    from whyidle.machine.watch.alert_routes import open_route
    from whyidle.model.live.alert import Delivery, Notice

    now = time.time()
    notice = Notice(
        key="test", rule=settings.active_rules()[0], event="fires", value=None, since=now, when=now,
        labels={"run": "test", "hostname": "this machine"}, cause="a test of this route",
    )  # fmt: skip
    failed = []
    for table in settings.route or [{"kind": "stdout"}]:
        thread = open_route(table)
        thread.enqueue(Delivery(notices=[notice]))
        thread.close(None)
        failed += [thread.name] if thread.has_failed else []
    if failed:
        raise OutputError(f"Not delivered by {', '.join(failed)}.", hint="See the message above.")
    _output.print_note(args, "delivered over every route")
    return 0


def _rules_table(rules: list[Rule]) -> str:
    from whyidle.reports._number_format import format_age
    from whyidle.reports._text_page import Page

    page = Page(_output.output_width(), _output.stream_colours())
    rows = [
        (rule.id, rule.severity, rule.of, format_age(rule.window_s + rule.for_s), rule.summary)
        for rule in rules
    ]
    cells = [[page.styled_text(cell) for cell in row] for row in rows]
    page.table(("rule", "severity", "of", "after", "meaning"), cells)
    return page.page_text()
