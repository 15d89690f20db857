"""Print each user's own page of the report.

whyidle fleet digest --ledger slurm --meter prometheus:http://prom:9090
whyidle fleet digest --ledger slurm --meter prometheus:http://prom:9090 --user alice
"""

from __future__ import annotations

import argparse

from whyidle.cli import _output
from whyidle.cli._fleet.options import add_fleet_options, make_prices, now_ms, open_fleet
from whyidle.cli._options import add_option
from whyidle.errors import UsageError


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_fleet_options(parser)
    add_option(parser, "--user")


def run(args: argparse.Namespace) -> int:
    """Read, divide, and print."""
    from whyidle.cluster.report.report import make_report
    from whyidle.reports._fleet_digest import render_digest

    with open_fleet(args) as fleet:
        report = make_report(fleet, by="user", prices=make_prices(args), now_ms=now_ms(), jobs=None)
    users = [row.key for row in report.groups["user"] if row.key != "?"]
    if args.user is not None and args.user not in users:
        raise UsageError(f"{args.user} held no GPU in the window.")
    pages = [render_digest(report, user) for user in users if args.user in (None, user)]
    _output.print_text("\n".join(pages))
    return 0
