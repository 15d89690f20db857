"""Show what a policy would do about jobs that waste GPUs; do it with --yes.

    whyidle fleet act --policy policy.toml --ledger slurm --meter prometheus:http://prom:9090
    whyidle fleet act --policy policy.toml --ledger slurm --meter prometheus:http://prom:9090 --yes

Without --yes nothing changes. With it, and `enforce = true` in the policy, owners are warned, idle
jobs cancelled after their warnings, and pending jobs resized. No action is taken, and the exit
status is 1, while telemetry is old or incomplete, meters disagree, or more jobs would be affected
than the policy allows. Every action is logged before it happens.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._fleet.options import add_fleet_options, make_prices, now_ms, open_fleet
from whyidle.cli._options import add_option
from whyidle.errors import UsageError

if TYPE_CHECKING:
    from whyidle.model.documents.fleet_policy import ActionPlan

LOG = Path(".whyidle") / "fleet" / "actions.jsonl"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_fleet_options(parser)
    parser.add_argument("--policy", metavar="FILE", type=Path, required=True, help="TOML")
    add_option(parser, "--yes", " to act (default: only list the actions)")
    parser.add_argument(
        "--log", metavar="FILE", type=Path, default=LOG, help=f"audit log (default: {LOG})"
    )
    add_option(parser, "--json", " (whyidle/act/1)")


def run(args: argparse.Namespace) -> int:
    """Plan, print, and act if asked to."""
    from whyidle.cluster.report.job_actions import Actor, plan_actions, read_log, read_policy
    from whyidle.cluster.report.reading import list_pending
    from whyidle.cluster.report.report import make_report

    _output.check_outputs(args)
    policy = read_policy(args.policy)
    if args.yes and not policy.enforce:
        raise UsageError(
            "The policy does not allow any action.", why=f"{args.policy} lacks enforce = true."
        )
    with open_fleet(args) as fleet:
        report = make_report(fleet, by="job", prices=make_prices(args), now_ms=now_ms())
        pending = list_pending(fleet)
    now = datetime.now(timezone.utc)
    plan = plan_actions(report, policy, pending=pending, log=read_log(args.log), now=now)
    if _output.write_documents(args, json=lambda: plan):
        _print_plan(plan, acts=args.yes)
    if plan.refused:
        return 1
    if not args.yes:
        return 0
    actor = Actor(policy, args.log, lambda text: print(f"whyidle: {text}", file=sys.stderr))
    return int(actor.act(plan) > 0)


def _print_plan(plan: ActionPlan, *, acts: bool) -> None:
    from whyidle.reports._fleet_actions import render_plan

    width, colours = _output.output_width(), _output.stream_colours()
    _output.print_text(render_plan(plan, acts=acts, width=width, colours=colours))
