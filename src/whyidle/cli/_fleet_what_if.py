"""Replay the jobs of a ledger under other scheduling policies.

    whyidle fleet what-if --ledger csv:jobs.csv,nodes.csv
    whyidle fleet what-if --ledger slurm --since 30d --policy backfill+best-fit+share --html w.html

A policy is one word of each kind, joined with +: fifo or backfill; first-fit, best-fit or spread;
whole, share (devices are shared as jobs declare) or mig (the smallest slice that holds the share);
no-gang (a job of several nodes keeps each as soon as it is free). Waits are predicted only where
the simulator makes those that happened, within 20 %.
"""

from __future__ import annotations

import argparse

from whyidle.cli import _output
from whyidle.cli._fleet_options import add_window_options, make_window
from whyidle.cli._options import STDOUT, add_quiet
from whyidle.cli._progress_line import Progress
from whyidle.errors import UsageError


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--ledger",
        metavar="NAME[:WHERE]",
        action="append",
        default=[],
        help="who asked for which GPUs, and the nodes: slurm, or csv:JOBS,NODES; may be repeated",
    )
    add_window_options(parser)
    parser.add_argument(
        "--policy", metavar="WORDS", action="append", default=[], help="what to try; repeatable"
    )
    parser.add_argument("--json", metavar="PATH|-", help="write the results, whyidle/what-if/1")
    parser.add_argument("--html", metavar="PATH", help="write a picture and a table as HTML")
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Read the ledger, replay it, and print."""
    from whyidle.engine.fleet.reading import read_ledgers
    from whyidle.engine.fleet.what_if import DEFAULT, parse_policy, replay_ledger
    from whyidle.exporters._fleet_what_if import what_if_parts
    from whyidle.exporters._html.sections import render_page

    _output.check_outputs(args)
    if not args.ledger:
        raise UsageError("No ledger is named.", hint="--ledger slurm, or --ledger csv:JOBS,NODES")
    policies = [parse_policy(text) for text in args.policy or DEFAULT]
    rows = read_ledgers(args.ledger, make_window(args))
    with Progress(quiet=args.quiet) as progress:
        report = replay_ledger(
            rows, args.ledger, policies, progress=lambda _, done, of: progress(done, of)
        )
    if args.json:
        _output.write_json(args.json, report)
    if args.html:
        title, about = "What if: other policies", ", ".join(report.ledgers)
        page = render_page(title, about, what_if_parts(report), report.whyidle)
        _output.write_target(args.html, page)
        _output.print_note(args, f"wrote {args.html}")
    if args.json != STDOUT and not args.quiet:
        _output.print_parts(what_if_parts(report))
    return 0
