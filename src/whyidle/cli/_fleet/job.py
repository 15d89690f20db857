"""Show one job's efficiency: what it requested and used, why it waited, what to request next time.

    whyidle fleet job 1234 --meter prometheus:http://prom:9090
    whyidle fleet job $SLURM_JOB_ID --meter prometheus:http://prom:9090 --line

Without --ledger, Slurm is queried for this job alone, whenever it ran. Other ledgers are
searched from --since on. The epilog in deploy/slurm keeps the line in Slurm's accounting.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._fleet.options import add_fleet_options, make_prices, make_window, open_fleet
from whyidle.cli._options import add_option
from whyidle.errors import InputError

if TYPE_CHECKING:
    from whyidle.model.documents.fleet import JobEfficiency
    from whyidle.model.fleet_rows import Window


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("job", metavar="ID", help="the scheduler's job id, such as 1234 or 17_2")
    add_fleet_options(parser)
    add_option(parser, "--json")
    parser.add_argument("--line", action="store_true", help="print one line, for a log")


def run(args: argparse.Namespace) -> int:
    """Find the job, read its time, and print."""
    _output.check_outputs(args)
    if not args.ledger:
        from whyidle.cluster.ledgers.slurm import ONE

        args.ledger = [f"slurm:{ONE}{args.job}"]
        args.since = None
    page = _examine_job(args, find_job(args))
    if _output.write_documents(args, json=lambda: page):
        from whyidle.reports._fleet_job import job_parts

        if args.line:
            _output.print_text(f"{page.line}\n")
        else:
            _output.print_parts(job_parts(page))
    return 0


def find_job(args: argparse.Namespace) -> Window:
    """The time in which the job held GPUs, so that meters are asked for no more.

    Raises:
        InputError: no ledger knows it, or it held no GPU.
    """
    from whyidle.cluster.report.reading import read_ledgers
    from whyidle.model.fleet_rows import Window

    rows = read_ledgers(args.ledger, make_window(args))
    held = [one for one in rows.holdings if args.job in (one.job, one.label)]
    if held:
        return Window(min(one.start_ms for one in held), max(one.end_ms for one in held))
    is_known = any(job.job == args.job for job in rows.jobs)
    raise InputError(
        f"The job {args.job} held no GPU." if is_known else f"There is no job {args.job!r}.",
        why="It is pending, or requested none."
        if is_known
        else f"Asked: {', '.join(args.ledger)}.",
        hint="For other ledgers: whyidle fleet job ID --ledger csv:jobs.csv --since 30d",
    )


def _examine_job(args: argparse.Namespace, window: Window) -> JobEfficiency:
    from whyidle.cluster.report.advice import suggest_request
    from whyidle.cluster.report.groups import cause_rows
    from whyidle.cluster.report.job_rows import list_jobs, make_job_tables
    from whyidle.model.documents.fleet import JobEfficiency
    from whyidle.reports._fleet_job import describe_in_line

    prices = make_prices(args)
    with open_fleet(args, window) as fleet:
        make_job_tables(fleet, prices)
        found = list_jobs(fleet, prices, job=args.job)
        job = max(found, key=lambda one: (one.job == args.job, one.start or ""))
        causes = [row for row in cause_rows(fleet, job.job) if row.cause]
    advice = list(suggest_request(job))
    line = describe_in_line(job, causes, advice)
    return JobEfficiency(job=job, causes=causes, next_time=advice, line=line)
