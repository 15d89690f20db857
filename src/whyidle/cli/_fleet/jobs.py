"""List jobs and how their GPU-hours were used, those with the most waste first.

    whyidle fleet jobs --ledger slurm --meter prometheus:http://prom:9090 --user alice
    whyidle fleet jobs --ledger slurm --meter parquet:history/ --most 0 --json -

GPU-hours are divided into the same states as in `whyidle fleet report`.
"""

from __future__ import annotations

import argparse

from whyidle.cli import _output
from whyidle.cli._fleet.options import add_fleet_options, make_prices, open_fleet
from whyidle.cli._options import add_option

MOST = 50


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_fleet_options(parser)
    add_option(parser, "--user")
    parser.add_argument(
        "--most", metavar="N", type=_parse_most, default=MOST, help=f"0: all (default: {MOST})"
    )
    add_option(parser, "--json")


def _parse_most(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Read, divide, and list."""
    from whyidle.cluster.report.job_rows import list_jobs, make_job_tables
    from whyidle.reports._fleet_page import jobs_table

    _output.check_outputs(args)
    prices = make_prices(args)
    with open_fleet(args) as fleet:
        make_job_tables(fleet, prices)
        jobs = list_jobs(fleet, prices, limit=args.most or None, user=args.user)
    if _output.write_documents(args, json=lambda: jobs):
        _output.print_parts([jobs_table(jobs)])
    return 0
