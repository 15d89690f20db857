"""Divide the allocated GPU-hours into useful, starved, idle, failed and unknown; suggest changes.

    whyidle fleet report --ledger slurm --meter csv:readings/ --since 7d
    whyidle fleet report --ledger labels --meter parquet:history/ --by partition --json -

Every allocated GPU-hour is in exactly one state; time without telemetry is unknown, never idle.
Daily sums are kept in --cache, so an interrupted report can continue.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._fleet.options import add_fleet_options, make_prices, now_ms, open_fleet
from whyidle.cli._options import add_option

if TYPE_CHECKING:
    from whyidle.model.documents.fleet import FleetReport

KEYS = ("user", "job", "cause", "partition", "node")


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_fleet_options(parser)
    parser.add_argument("--by", choices=KEYS, default="user", help="table (default: user)")
    add_option(parser, "--json", " (whyidle/fleet/1)")
    add_option(parser, "--html")


def run(args: argparse.Namespace) -> int:
    """Read, divide, and print."""
    from whyidle.cluster.report.report import make_report

    _output.check_outputs(args)
    with open_fleet(args) as fleet:
        report = make_report(fleet, by=args.by, prices=make_prices(args), now_ms=now_ms())
    _write_outputs(args, report)
    return 0


def _write_outputs(args: argparse.Namespace, report: FleetReport) -> None:
    from whyidle.reports._fleet_page import report_parts
    from whyidle.reports._html.sections import render_page

    parts = report_parts(report)
    about = f"fleet · {report.since[:10]} to {report.until[:10]}"
    if _output.write_documents(
        args,
        json=lambda: report,
        html=lambda: render_page("GPU-hours of a fleet", about, parts, report.whyidle),
    ):
        _output.print_parts(report_parts(report))
