"""Account for a cluster's GPU-hours by user, job and cause.

    whyidle fleet report --ledger slurm --meter prometheus:http://prom:9090
    whyidle fleet report --ledger csv:jobs.csv --meter csv:readings.csv --by cause --html fleet.html
    whyidle fleet jobs --ledger slurm --meter parquet:history/ --user alice
    whyidle fleet job 1234 --meter prometheus:http://prom:9090

A ledger says who held which GPUs, a meter how busy they were. Nothing of the cluster is changed.
Needs the extra `fleet`: pip install 'whyidle[fleet]'.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from whyidle.cli._options import add_command
from whyidle.errors import UsageError

ACTIONS = ("report", "jobs", "job")
"""subcommands, each a module of ``_fleet``"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    actions = parser.add_subparsers(title="subcommands", metavar="ACTION", dest="action")
    for name in ACTIONS:
        action = import_module(f"whyidle.cli._fleet.{name}")
        sub = add_command(actions, name, action, parser.formatter_class)
        sub.set_defaults(run_action=action.run)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    if args.action is None:
        raise UsageError(
            "A subcommand is missing.",
            why=f"Choose one of {', '.join(ACTIONS)}.",
            hint="whyidle fleet -h",
        )
    status: int = args.run_action(args)
    return status
