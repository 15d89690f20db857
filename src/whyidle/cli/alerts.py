"""List or mute alert rules, test where alerts go, or write a rule file for Prometheus.

    whyidle watch --alerts alerts.toml       evaluate and deliver alerts while watching
    whyidle alerts                           list the shipped rules
    whyidle alerts alerts.toml               check a file, and list its rules
    whyidle alerts --rules rules.yml         write the same rules for Prometheus
    whyidle alerts --mute idle-held --duration 2h    mute a rule or an alert for two hours
    whyidle alerts alerts.toml --test        send a test notice over every route

Rules and routes stand in one TOML file; without FILE the shipped rules apply.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._durations import FORMS, parse_seconds
from whyidle.cli._options import STDOUT, add_outputs, add_store, store_of
from whyidle.errors import OutputError, UsageError

if TYPE_CHECKING:
    from whyidle.machine.alerts.rule_file import AlertSettings
    from whyidle.model.live.alert import Rule

MUTED_S = 4 * 3600.0


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
    parser.add_argument("--mute", metavar="NAME", help="rule, or key of an alert")
    parser.add_argument("--unmute", metavar="NAME", help="end a mute")
    parser.add_argument(
        "--duration",
        dest="length",
        metavar="TIME",
        type=_parse_length,
        default=MUTED_S,
        help=f"how long to mute: {FORMS} (default: 4h)",
    )
    add_outputs(parser, ("--json",), "")
    add_store(parser)


def _parse_length(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError:
        seconds = None
    if seconds is None or seconds <= 0:
        raise argparse.ArgumentTypeError(f"must be {FORMS}, not {text!r}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    from whyidle.machine.alerts.prometheus_rules import write_rules
    from whyidle.machine.alerts.rule_file import AlertSettings, read_settings
    from whyidle.machine.watch.alert_routes import check_routes

    if args.mute or args.unmute:
        return _change_mutes(args)
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


def _change_mutes(args: argparse.Namespace) -> int:
    import json

    from whyidle.machine.alerts.alert_watch import MUTES, read_mutes
    from whyidle.machine.alerts.rule_file import load_shipped
    from whyidle.store.atomic_write import write_atomic

    path = store_of(args).root / MUTES
    mutes = read_mutes(path)
    if args.unmute and mutes.pop(args.unmute, None) is None:
        raise UsageError(f"{args.unmute} is not muted.", why=f"Muted: {', '.join(mutes) or '-'}.")
    if args.mute:
        mutes[args.mute] = time.time() + args.length
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(mutes).encode())
    except OSError as error:
        raise OutputError(f"Cannot write {path}.", why=f"{error.strerror or error}.") from error
    _output.print_note(args, f"muted: {', '.join(mutes) or 'nothing'}")
    shipped = [rule.id for rule in load_shipped()]
    if args.mute and "/" not in args.mute and args.mute not in shipped:
        known = ", ".join(shipped)
        _output.print_note(
            args, f"{args.mute} is neither a rule nor the key of an alert. Shipped rules: {known}"
        )
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
        thread.enqueue(Delivery(notices=[notice], firing=[notice]))
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
